//! Large messages, which the program writes directly into the frame, without a copy (Fast Messages' hybrid of copy and DMA,
//! Pakin et al., §4.3).

use std::fmt;
use std::io;

use am_proto::{EndpointId, FlowId};
use am_ring::Frame;
use am_wire::frame::MIN_FRAME;
use am_wire::{Buffer, Class, Framing, MAX_WORDS, WORD_BYTES};

use crate::node_state::{LARGE, NodeState, NodeWeak, borrow_to_drop, put_words};
use crate::{Connection, Endpoint, HandlerId, RequestError, Token};

/// A request or a reply whose payload the program writes directly into the frame, in memory that the NIC reads.
/// [`Endpoint::prepare`] and [`Token::prepare`] return it, and [`commit`](Prepared::commit) sends it. Dropping it releases the
/// frame and sends nothing; the drop of a reply declines the reply.
///
/// There are two ways to fill it: piece by piece through [`io::Write`], or anywhere in [`space`](Prepared::space). Bytes that
/// were not written are sent as zeros, so the peer never gets bytes of an earlier message.
pub struct Prepared {
    node: NodeWeak,
    /// `None` once it is sent or dropped.
    frame: Option<Frame>,
    /// The endpoint of a request.
    endpoint: Option<EndpointId>,
    flow: FlowId,
    class: Class,
    handler: HandlerId,
    words: u8,
    framing: Framing,
    /// The most bytes of payload.
    room: u32,
    /// The bytes of payload that were written or cleared.
    written: u32,
}

impl<S> Endpoint<S> {
    /// Memory for a request with these words (at most 4) and a payload of `least` to `most` bytes. It gets as much room as one
    /// frame to this peer has. The request takes credit only when it is [committed](Prepared::commit).
    ///
    /// ```
    /// # use am_api::{Connection, Endpoint, HandlerId, RequestError};
    /// fn squares(endpoint: &Endpoint<()>, to: Connection) -> Result<(), RequestError> {
    ///     let mut prepared = endpoint.prepare(to, HandlerId(7), &[2], 16, 1024)?;
    ///     let space = prepared.space();
    ///     space.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * at) as u8);
    ///     let all = space.len();
    ///     prepared.commit(all).map_err(|(error, _)| error)
    /// }
    /// ```
    ///
    /// # Errors
    /// As for [`Endpoint::try_request`], except [`NoCredit`](RequestError::NoCredit). Prepared requests occupy the send queue,
    /// so [`QueueFull`](RequestError::QueueFull) may be due to them.
    pub fn prepare(
        &self,
        to: Connection,
        handler: HandlerId,
        words: &[u64],
        least: usize,
        most: usize,
    ) -> Result<Prepared, RequestError> {
        let mut node = self.node.borrow_mut();
        match node.prepare_request(to.0, handler, words, (least, most)) {
            Ok((mut prepared, frame)) => {
                prepared.endpoint = Some(self.id);
                prepared.lay_out(self.node.downgrade(), frame, words);
                Ok(prepared)
            }
            Err(why) => Err(node.note_blocked(self.id, to.0, why)),
        }
    }
}

impl Token {
    /// As [`Endpoint::prepare`], for the reply. A reply needs no credit, and uses the frame that was set aside for it.
    ///
    /// # Errors
    /// As for [`Token::reply`]. The error returns the token, which can still be used.
    pub fn prepare(
        mut self,
        handler: HandlerId,
        words: &[u64],
        least: usize,
        most: usize,
    ) -> Result<Prepared, (RequestError, Token)> {
        let Some(node) = self.node.upgrade() else { return Err((RequestError::NodeDropped, self)) };
        let mut node = node.borrow_mut();
        let prepared = node.prepared(self.flow, Class::Reply, handler, words, (least, most));
        match prepared.and_then(|prepared| Ok((prepared, node.reply_frame(self.flow)?))) {
            Ok((mut prepared, frame)) => {
                self.valid = false;
                prepared.lay_out(self.node.clone(), frame, words);
                Ok(prepared)
            }
            Err(error) => Err((error, self)),
        }
    }
}

impl Prepared {
    /// All of the payload's memory. This call clears the bytes that were not written before, which [`io::Write`] need not do.
    pub fn space(&mut self) -> &mut [u8] {
        self.clear_to(self.room as usize);
        self.payload()
    }

    /// The most bytes of payload.
    pub fn room(&self) -> usize {
        self.room as usize
    }

    /// The number of bytes that were written through [`io::Write`]. All bytes count once [`space`](Self::space) was called.
    pub fn written(&self) -> usize {
        self.written as usize
    }

    /// Send the words and the first `length` bytes of the payload. They are not copied, unless the frame is so short that
    /// Ethernet pads it, or the message is small and shares the frame of one that waits.
    ///
    /// # Errors
    /// As for [`Endpoint::try_request`] and [`Token::reply`]. The error returns the message with everything written so far.
    pub fn commit(mut self, length: usize) -> Result<(), (RequestError, Prepared)> {
        let room = self.room as usize;
        if length > room {
            return Err((RequestError::TooLargeForFrame { needs: length, most: room }, self));
        }
        let Some(node) = self.node.upgrade() else { return Err((RequestError::NodeDropped, self)) };
        self.clear_to(length);
        let Some(frame) = self.frame.take() else { return Err((RequestError::NoFrame, self)) };
        let mut node = node.borrow_mut();
        match node.commit(&self, frame, length) {
            Ok(()) => {
                node.prepared -= usize::from(self.class == Class::Request);
                Ok(())
            }
            Err((error, frame)) => {
                self.frame = Some(frame);
                if let Some(endpoint) = self.endpoint {
                    node.note_blocked(endpoint, self.flow, error);
                }
                drop(node);
                Err((error, self))
            }
        }
    }

    fn lay_out(&mut self, node: NodeWeak, mut frame: Frame, words: &[u64]) {
        if let Some(space) = frame.space().and_then(|space| space.get_mut(self.framing.body_at()..)) {
            put_words(space, words);
        }
        (self.node, self.frame) = (node, Some(frame));
    }

    /// Bytes before the payload.
    fn front(&self) -> usize {
        self.words as usize * WORD_BYTES
    }

    fn payload(&mut self) -> &mut [u8] {
        let from = self.framing.body_at() + self.front();
        let range = from..from + self.room as usize;
        // `space` succeeds because this is the frame's only handle, and `prepare` has checked the room.
        self.frame.as_mut().and_then(Buffer::space).and_then(|space| space.get_mut(range)).unwrap_or_default()
    }

    fn clear_to(&mut self, end: usize) {
        let written = self.written as usize;
        if let Some(rest) = self.payload().get_mut(written..end) {
            rest.fill(0);
        }
        self.written = self.written.max(end as u32);
    }
}

impl io::Write for Prepared {
    /// Writes as many bytes as fit; 0 when the payload is full.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.written as usize;
        let place = self.payload().get_mut(written..).unwrap_or_default();
        let count = place.len().min(bytes.len());
        place[..count].copy_from_slice(&bytes[..count]);
        self.written += count as u32;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if self.frame.take().is_some()
            && let Some(node) = self.node.upgrade()
            && let Some(mut node) = borrow_to_drop(&node)
        {
            match self.class {
                Class::Request => node.prepared -= 1,
                Class::Reply => node.decline_reply(self.flow),
            }
        }
    }
}

impl NodeState {
    /// A message with these words and a payload of `least` to `most` bytes, without a frame.
    fn prepared(
        &mut self,
        flow: FlowId,
        class: Class,
        handler: HandlerId,
        words: &[u64],
        (least, most): (usize, usize),
    ) -> Result<Prepared, RequestError> {
        let (framing, max_body) = self.open_flow(flow)?;
        if words.len() > MAX_WORDS {
            return Err(RequestError::TooManyWords { count: words.len(), most: MAX_WORDS });
        }
        let front = words.len() * WORD_BYTES;
        let longest = max_body.saturating_sub(front);
        if least > longest {
            return Err(RequestError::TooLargeForFrame { needs: least, most: longest });
        }
        let (words, room) = (words.len() as u8, most.clamp(least, longest) as u32);
        let (node, frame, endpoint) = (NodeWeak::new(), None, None);
        Ok(Prepared { node, frame, endpoint, flow, class, handler, words, framing, room, written: 0 })
    }

    /// A request with these words and a payload of `bytes` (least, most), and its frame.
    fn prepare_request(
        &mut self,
        flow: FlowId,
        handler: HandlerId,
        words: &[u64],
        bytes: (usize, usize),
    ) -> Result<(Prepared, Frame), RequestError> {
        let prepared = self.prepared(flow, Class::Request, handler, words, bytes)?;
        if self.engine.core().free_slots() <= self.prepared {
            return Err(RequestError::QueueFull);
        }
        let frame = self.engine.pool().take().ok_or(RequestError::NoFrame)?;
        self.prepared += 1;
        Ok((prepared, frame))
    }

    /// Send a message whose words and payload are already in the frame.
    fn commit(&mut self, what: &Prepared, mut frame: Frame, length: usize) -> Result<(), (RequestError, Frame)> {
        let &Prepared { flow, class, handler, words, framing, .. } = what;
        let (body, at) = (what.front() + length, framing.body_at());
        if class == Class::Request && !self.bulk.may_follow(self.engine.core(), flow) {
            return Err((RequestError::NoCredit, frame));
        }
        // To copy a small message costs less than a frame of its own.
        if let Some(written) = frame.space().and_then(|space| space.get(at..at + body))
            && let Some(place) = self.core().append(flow, class, handler.0, words, body)
        {
            place.copy_from_slice(written);
            return Ok(());
        }
        // `send` clears the whole body of a frame that Ethernet pads. So save it first, and write it again.
        let mut short = [0; MIN_FRAME];
        let is_short = at + body < MIN_FRAME;
        if is_short && let Some(space) = frame.space() {
            short[..body].copy_from_slice(&space[at..at + body]);
        }
        let write = |place: &mut [u8]| {
            if is_short {
                place.copy_from_slice(&short[..body]);
            }
        };
        self.core()
            .send(flow, class, handler.0, words, frame, body, write)
            .map_err(|(error, frame)| (error.into(), frame))?;
        if body >= LARGE {
            self.engine.send_early(&mut **self.transport);
        }
        Ok(())
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("room", &self.room).field("written", &self.written).finish_non_exhaustive()
    }
}
