//! Requests: step 1 of a message's path. A request or reply is written into the frame that it leaves in.

use std::io::IoSlice;

use am_proto::FlowId;
use am_ring::Frame;
use am_wire::{Class, MAX_WORDS, WORD_BYTES};

use crate::node_state::NodeState;
use crate::{Connection, Endpoint, HandlerId, RequestError};

impl<S> Endpoint<S> {
    /// Send a request: at the other side, its function for `handler` runs with
    /// these words (at most 4) and this payload. Never blocks; the frame
    /// leaves with the next poll or flush.
    ///
    /// # Errors
    /// See [`RequestError`]; those that [are temporary](RequestError::is_temporary) pass with polling.
    #[inline]
    pub fn try_request(
        &self,
        to: Connection,
        handler: HandlerId,
        words: &[u64],
        payload: &[u8],
    ) -> Result<(), RequestError> {
        self.request_with(to, handler, words, payload)
    }

    /// The same with a payload that lies in several places: gathered once, into
    /// the frame that leaves (PVMAM §4.2).
    ///
    /// ```
    /// use std::io::IoSlice;
    /// use am_api::{Connection, Endpoint, HandlerId, RequestError};
    ///
    /// /// A message with a header of its own and a body that lies elsewhere.
    /// fn pack(endpoint: &Endpoint<()>, to: Connection, header: &[u8; 12], body: &[u8]) -> Result<(), RequestError> {
    ///     endpoint.try_request_vectored(to, HandlerId(4), &[], &[IoSlice::new(header), IoSlice::new(body)])
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Endpoint::try_request`].
    pub fn try_request_vectored(
        &self,
        to: Connection,
        handler: HandlerId,
        words: &[u64],
        payload: &[IoSlice<'_>],
    ) -> Result<(), RequestError> {
        self.request_with(to, handler, words, payload)
    }

    #[inline]
    fn request_with<P: Payload + ?Sized>(
        &self,
        to: Connection,
        handler: HandlerId,
        words: &[u64],
        payload: &P,
    ) -> Result<(), RequestError> {
        let mut node = self.node.borrow_mut();
        let frame = node.engine.pool().take().ok_or(RequestError::NoFrame)?;
        let bytes = payload.bytes();
        if bytes >= node.large {
            node.engine.pool().prefetch_next(bytes);
        }
        node.send(to.0, Class::Request, handler, words, payload, frame).map_err(|(error, _)| error)
    }
}

/// A payload, in one place or in several.
pub(crate) trait Payload {
    /// How long it is.
    fn bytes(&self) -> usize;
    /// Copy it to where it leaves from: as many bytes as it has.
    fn put(&self, place: &mut [u8]);
}

impl Payload for [u8] {
    #[inline]
    fn bytes(&self) -> usize {
        self.len()
    }

    #[inline]
    fn put(&self, place: &mut [u8]) {
        place.copy_from_slice(self);
    }
}

impl Payload for [IoSlice<'_>] {
    fn bytes(&self) -> usize {
        self.iter().fold(0, |bytes, part| bytes.saturating_add(part.len()))
    }

    fn put(&self, mut place: &mut [u8]) {
        for part in self {
            let (to, rest) = place.split_at_mut(part.len());
            to.copy_from_slice(part);
            place = rest;
        }
    }
}

/// The default of [`Builder::large`](crate::Builder::large): what may still find company waits for it until the doorbell.
/// A turn's burst of longer ones would fill the nearest cache.
pub(crate) const LARGE: usize = am_proto::Config::COALESCE_BELOW;

impl NodeState {
    /// Admit the message, and write it into the frame. On an error the frame comes back.
    #[inline]
    pub(crate) fn send<P: Payload + ?Sized>(
        &mut self,
        flow: FlowId,
        class: Class,
        handler: HandlerId,
        words: &[u64],
        payload: &P,
        frame: Frame,
    ) -> Result<(), (RequestError, Frame)> {
        if words.len() > MAX_WORDS {
            return Err((RequestError::TooManyWords { count: words.len(), most: MAX_WORDS }, frame));
        }
        let body = payload.bytes().saturating_add(words.len() * WORD_BYTES);
        let write = |place: &mut [u8]| {
            put_words(place, words);
            payload.put(&mut place[words.len() * WORD_BYTES..]);
        };
        let sent = self.core().send(flow, class, handler.0, words.len() as u8, frame, body, write);
        if body >= self.large && sent.is_ok() {
            self.engine.send_early(&mut *self.transport);
        }
        sent.map_err(|(error, frame)| (error.into(), frame))
    }
}

/// Words in network byte order.
#[inline]
pub(crate) fn put_words(place: &mut [u8], words: &[u64]) {
    for (place, word) in place.chunks_exact_mut(WORD_BYTES).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
}
