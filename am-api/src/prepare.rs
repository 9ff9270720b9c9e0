//! Large messages, built in the memory that they leave from, without a copy (Fast Messages' hybrid of copy and DMA, Pakin et
//! al., §4.3).

use std::fmt;
use std::io;

use am_proto::{EndpointId, FlowId};
use am_ring::Frame;
use am_wire::frame::MIN_FRAME;
use am_wire::{Buffer, Class, Framing, MAX_WORDS, WORD_BYTES};

use crate::node_state::{LARGE, NodeState, NodeWeak, borrow_to_drop, put_words};
use crate::{Connection, Endpoint, HandlerId, RequestError, Token};

/// A request or a reply whose payload is written where it leaves from: NIC
/// memory. [`Endpoint::prepare`] and [`Token::prepare`] give it,
/// [`commit`](Prepared::commit) sends it; dropped, its frame goes back and
/// nothing is sent: a reply is forgone.
///
/// Two ways to fill it: piece by piece through [`io::Write`], or anywhere in
/// [`space`](Prepared::space). What was not written leaves as zeros: never what
/// an earlier message left in this memory.
pub struct Prepared {
    node: NodeWeak,
    /// Until it is sent or dropped.
    frame: Option<Frame>,
    /// The endpoint of a request.
    endpoint: Option<EndpointId>,
    flow: FlowId,
    class: Class,
    handler: HandlerId,
    words: u8,
    framing: Framing,
    /// Bytes of payload that there is room for.
    room: u32,
    /// The bytes of it that are the user's, or cleared.
    written: u32,
}

impl<S> Endpoint<S> {
    /// Memory for a request with these words (at most 4) and a payload of at
    /// least `least` bytes: as much as one frame to this peer holds, `most` at
    /// most. Credit is asked for when it is [committed](Prepared::commit).
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
    /// As for [`Endpoint::try_request`], except [`NoCredit`](RequestError::NoCredit).
    /// [`QueueFull`](RequestError::QueueFull) also when as many requests are
    /// prepared as could be sent.
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
            Err(why) => Err(node.note_refused(self.id, to.0, why)),
        }
    }
}

impl Token {
    /// As [`Endpoint::prepare`], for the reply: it needs no credit, and the frame
    /// is the one set aside for it.
    ///
    /// # Errors
    /// Those of [`Token::reply`], with the token, which is as good as before.
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
    /// All of the payload's memory, to be written anywhere. What has not been
    /// written before is cleared first: [`io::Write`] saves that.
    pub fn space(&mut self) -> &mut [u8] {
        self.clear_to(self.room as usize);
        self.payload()
    }

    /// Bytes of payload that there is room for.
    pub fn room(&self) -> usize {
        self.room as usize
    }

    /// Bytes that were written through [`io::Write`]; all, once [`space`](Self::space) was asked for.
    pub fn written(&self) -> usize {
        self.written as usize
    }

    /// Send the words and the first `length` bytes of the payload. They are
    /// not copied, unless the frame is so short that Ethernet pads it.
    ///
    /// # Errors
    /// As for [`Endpoint::try_request`] and [`Token::reply`]; everything written so far comes back with it.
    pub fn commit(mut self, length: usize) -> Result<(), (RequestError, Prepared)> {
        let room = self.room as usize;
        if length > room {
            return Err((RequestError::TooLarge { needs: length, most: room }, self));
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
                    node.note_refused(endpoint, self.flow, error);
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
        // It has one handle only, and room for this, as was seen in `prepare`.
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
    /// What fits is taken: 0 bytes when it is full.
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
                Class::Reply => node.forgo(self.flow),
            }
        }
    }
}

impl NodeState {
    /// A message with these words and a payload of `least` to `most` bytes, still without a frame.
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
        let needs = front.saturating_add(least);
        if needs > max_body {
            return Err(RequestError::TooLarge { needs, most: max_body });
        }
        let (words, room) = (words.len() as u8, most.clamp(least, max_body - front) as u32);
        let (node, frame, endpoint) = (NodeWeak::new(), None, None);
        Ok(Prepared { node, frame, endpoint, flow, class, handler, words, framing, room, written: 0 })
    }

    /// The same for a request, with its frame.
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

    /// Words and payload stand in the frame already.
    fn commit(&mut self, what: &Prepared, mut frame: Frame, length: usize) -> Result<(), (RequestError, Frame)> {
        let &Prepared { flow, class, handler, words, framing, .. } = what;
        let (body, at) = (what.front() + length, framing.body_at());
        // The padding of a short frame is cleared with all that stands in it.
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
