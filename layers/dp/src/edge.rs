//! The sending side of an endpoint: its edge, and the long message that is being sent on it.

use std::io::IoSlice;

use am_api::{Connection, Endpoint, RequestError};

use crate::inbox::{FIRST, MORE, SHORT};
use crate::point::PointId;
use crate::{Dpid, Nid, WriteError};

/// The other end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// An endpoint of another process.
    Remote(Connection),
    /// An endpoint of this one.
    Local(PointId),
}

/// A message of several frames.
#[derive(Debug)]
struct Outgoing {
    message: Vec<u8>,
    /// The number of bytes that were sent.
    at: usize,
}

/// An edge: a channel in one direction.
#[derive(Debug)]
pub(crate) struct Edge {
    pub(crate) nid: Nid,
    pub(crate) dpid: Dpid,
    pub(crate) target: Target,
    outgoing: Option<Outgoing>,
    /// The size of the receiver's pool. Known once it has refused a message.
    most: Option<usize>,
    /// The length of a refused message, until a write returns the error.
    failed: Option<usize>,
}

/// How much of a message was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    All,
    Part,
}

impl Edge {
    pub(crate) fn new((nid, dpid): (Nid, Dpid), target: Target) -> Edge {
        Edge { nid, dpid, target, outgoing: None, most: None, failed: None }
    }

    /// The receiver refused a message of this length, because its pool has only `most` bytes. It drops the message's parts.
    pub(crate) fn on_refused(&mut self, len: usize, most: usize) {
        (self.most, self.failed) = (Some(most), Some(len));
    }

    /// A read has returned the error.
    pub(crate) fn forget_failure(&mut self) {
        self.failed = None;
    }

    pub(crate) fn is_sending(&self) -> bool {
        self.outgoing.is_some()
    }

    /// Send a message to another process.
    #[inline]
    pub(crate) fn write(&mut self, to: Connection, sender: &Endpoint<()>, message: &[u8]) -> Result<Left, WriteError> {
        if self.outgoing.is_some() || self.failed.is_some() {
            return Err(self.blocked());
        }
        match sender.try_request_in_frame(to, SHORT, &[], message) {
            Ok(()) => Ok(Left::All),
            Err(RequestError::TooLargeForFrame { .. }) => self.begin(to, sender, message),
            Err(error) => Err(write_error(error)),
        }
    }

    /// Why nothing can be written now.
    #[cold]
    fn blocked(&mut self) -> WriteError {
        match (self.failed.take(), self.most) {
            (Some(len), Some(most)) => WriteError::TooLong { len, most },
            _ => WriteError::Full,
        }
    }

    /// Begin a message of several frames. It is copied, and its parts are sent as the receiver has room.
    #[cold]
    fn begin(&mut self, to: Connection, sender: &Endpoint<()>, message: &[u8]) -> Result<Left, WriteError> {
        let len = message.len();
        if let Some(most) = self.most.filter(|most| len > *most) {
            return Err(WriteError::TooLong { len, most });
        }
        let mut copy = Vec::new();
        copy.try_reserve_exact(len).map_err(|_| WriteError::NoMemory(len))?;
        copy.extend_from_slice(message);
        self.outgoing = Some(Outgoing { message: copy, at: 0 });
        self.push(to, sender);
        Ok(if self.outgoing.is_some() { Left::Part } else { Left::All })
    }

    /// Send parts of the long message, as many as the receiver has room for.
    pub(crate) fn push(&mut self, to: Connection, sender: &Endpoint<()>) {
        while let Some(Outgoing { message, at }) = &mut self.outgoing {
            let (handler, word) = if *at == 0 { (FIRST, message.len()) } else { (MORE, *at) };
            let words = [word as u64];
            // `None` if the connection has ended: drop the rest. The next write returns the error.
            let Some(most) = sender.frame_payload(to, words.len()).filter(|most| *most > 0) else { break };
            let piece = &message[*at..message.len().min(*at + most)];
            // Not the function for short messages, which is inlined because it has one caller.
            match sender.try_request_vectored(to, handler, &words, &[IoSlice::new(piece)]) {
                Ok(()) => *at += piece.len(),
                Err(error) if error.is_temporary() => return,
                Err(_) => break,
            }
            if *at == message.len() {
                break;
            }
        }
        self.outgoing = None;
    }
}

/// Why a message was not sent.
#[cold]
fn write_error(error: RequestError) -> WriteError {
    use am_api::NotOpen;
    match error {
        RequestError::Refused(why) => WriteError::Ended(NotOpen::Refused(why)),
        RequestError::Dead(why) => WriteError::Ended(NotOpen::Dead(why)),
        error if error.is_temporary() => WriteError::Full,
        _ => WriteError::Ended(NotOpen::Closed),
    }
}
