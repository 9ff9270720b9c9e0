//! The sending side of an endpoint: its edge, and the long message that leaves by it.

use std::io::IoSlice;

use am_api::{Connection, Endpoint, RequestError};

use crate::inbox::{FIRST, MORE, SHORT};
use crate::point::PointId;
use crate::{Dpid, Nid, WriteError};

/// What an edge leads to.
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
    /// So much has left.
    at: usize,
}

/// An edge: a channel in one direction.
#[derive(Debug)]
pub(crate) struct Edge {
    pub(crate) nid: Nid,
    pub(crate) dpid: Dpid,
    pub(crate) target: Target,
    outgoing: Option<Outgoing>,
    /// The most that the receiver's pool holds, once it had to say so.
    most: Option<usize>,
    /// The length of a message that came to nothing, until the program is told.
    failed: Option<usize>,
}

/// What of a message has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    All,
    Part,
}

impl Edge {
    pub(crate) fn new((nid, dpid): (Nid, Dpid), target: Target) -> Edge {
        Edge { nid, dpid, target, outgoing: None, most: None, failed: None }
    }

    /// The receiver refused a message of this length: its pool holds at most `most` bytes. It drops what it gets of it.
    pub(crate) fn refuse(&mut self, len: usize, most: usize) {
        (self.most, self.failed) = (Some(most), Some(len));
    }

    /// The program was told.
    pub(crate) fn forget_failure(&mut self) {
        self.failed = None;
    }

    pub(crate) fn is_sending(&self) -> bool {
        self.outgoing.is_some()
    }

    /// Send a message to another process.
    #[inline]
    pub(crate) fn write(&mut self, to: Connection, door: &Endpoint<()>, message: &[u8]) -> Result<Left, WriteError> {
        if self.outgoing.is_some() || self.failed.is_some() {
            return Err(self.blocked());
        }
        match door.try_request(to, SHORT, &[], message) {
            Ok(()) => Ok(Left::All),
            Err(RequestError::TooLarge { .. }) => self.begin(to, door, message),
            Err(error) => Err(refused(error)),
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

    /// A message of several frames: it is copied, and leaves as the receiver takes it.
    #[cold]
    fn begin(&mut self, to: Connection, door: &Endpoint<()>, message: &[u8]) -> Result<Left, WriteError> {
        let len = message.len();
        if let Some(most) = self.most.filter(|most| len > *most) {
            return Err(WriteError::TooLong { len, most });
        }
        let mut copy = Vec::new();
        copy.try_reserve_exact(len).map_err(|_| WriteError::NoMemory(len))?;
        copy.extend_from_slice(message);
        self.outgoing = Some(Outgoing { message: copy, at: 0 });
        self.push(to, door);
        Ok(if self.outgoing.is_some() { Left::Part } else { Left::All })
    }

    /// Send of the long message what the receiver has room for.
    pub(crate) fn push(&mut self, to: Connection, door: &Endpoint<()>) {
        while let Some(Outgoing { message, at }) = &mut self.outgoing {
            let (handler, word) = if *at == 0 { (FIRST, message.len()) } else { (MORE, *at) };
            let words = [word as u64];
            // Of a connection that has ended nothing leaves any more; the next write says so.
            let Some(most) = door.max_payload(to, words.len()).filter(|most| *most > 0) else { break };
            let piece = &message[*at..message.len().min(*at + most)];
            // By another function than short messages: theirs is inlined where it is called once.
            match door.try_request_vectored(to, handler, &words, &[IoSlice::new(piece)]) {
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

/// Why a message did not leave.
#[cold]
fn refused(error: RequestError) -> WriteError {
    use am_api::NotOpen;
    match error {
        RequestError::Refused(why) => WriteError::Ended(NotOpen::Refused(why)),
        RequestError::Dead(why) => WriteError::Ended(NotOpen::Dead(why)),
        error if error.is_temporary() => WriteError::Full,
        _ => WriteError::Ended(NotOpen::Closed),
    }
}
