//! Requests: step 1 of a message's path.

use std::io::IoSlice;
use std::ops::Deref;
use std::time::Duration;

use am_wire::Class;

use crate::node_state::LARGE;
use crate::payload::{Payload, Shared, WrittenBy};
use crate::{CallId, Connection, Endpoint, HandlerId, RequestError};

impl<S> Endpoint<S> {
    /// Send a request: at the other side, its function for `handler` runs with
    /// these words (at most 4) and this payload. Never blocks; the frame
    /// leaves with the next poll or flush.
    ///
    /// A payload that does not fit a [frame](Endpoint::frame_payload) is copied, travels in several, and arrives as one message. It may
    /// be as long as the peer [accepts](Endpoint::max_payload). Until all of it has left, further requests on this
    /// connection get [`NoCredit`](RequestError::NoCredit).
    ///
    /// # Errors
    /// See [`RequestError`]; those that [are temporary](RequestError::is_temporary) pass with polling. A loop that only polls and tries again
    /// keeps a processor busy: wait for [`Events::CAN_SEND`](crate::Events::CAN_SEND) by [`wait_events`](Endpoint::wait_events), or call
    /// [`request`](Endpoint::request), which sleeps meanwhile.
    #[inline]
    pub fn try_request(
        &self,
        to: Connection,
        handler: HandlerId,
        words: &[u64],
        payload: &[u8],
    ) -> Result<(), RequestError> {
        self.request_with::<true, _>(to, handler, words, payload)
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
        self.request_with::<true, _>(to, handler, words, payload)
    }

    /// As [`try_request`](Endpoint::try_request), with a payload that the node shares instead of copying it, if it is longer than a
    /// frame: a counted slice, as `Rc<[u8]>` or `Arc<Vec<u8>>`, or a counted mapped file. The node has a clone until the peer has all of
    /// it. Many messages may share one.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use am_api::{Connection, Endpoint, HandlerId, RequestError};
    ///
    /// fn publish(endpoint: &Endpoint<()>, to: &[Connection], page: &Arc<Vec<u8>>) -> Result<(), RequestError> {
    ///     to.iter().try_for_each(|to| endpoint.try_request_shared(*to, HandlerId(0), &[], page))
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Endpoint::try_request`].
    pub fn try_request_shared(
        &self,
        to: Connection,
        handler: HandlerId,
        words: &[u64],
        payload: &(impl Deref<Target: AsRef<[u8]>> + Clone + 'static),
    ) -> Result<(), RequestError> {
        self.request_with::<true, _>(to, handler, words, &Shared(&[], payload))
    }

    /// As [`try_request_shared`](Endpoint::try_request_shared), with bytes in front of the shared ones, which are copied.
    ///
    /// # Errors
    /// As [`Endpoint::try_request`].
    pub fn try_request_shared_behind(
        &self,
        to: Connection,
        handler: HandlerId,
        words: &[u64],
        front: &[u8],
        payload: &(impl Deref<Target: AsRef<[u8]>> + Clone + 'static),
    ) -> Result<(), RequestError> {
        self.request_with::<true, _>(to, handler, words, &Shared(front, payload))
    }

    /// As [`try_request`](Endpoint::try_request), with a payload of `bytes` bytes that `write` writes into the frame that leaves. It gets all
    /// of their memory and returns how many bytes it has written; the others are zeros. It does not call the node.
    ///
    /// ```
    /// use am_api::{Connection, Endpoint, HandlerId, RequestError};
    ///
    /// /// Numbers, without a list of their bytes.
    /// fn send(endpoint: &Endpoint<()>, to: Connection, numbers: &[u32]) -> Result<(), RequestError> {
    ///     endpoint.try_request_with(to, HandlerId(4), &[], 4 * numbers.len(), |place| {
    ///         place.chunks_exact_mut(4).zip(numbers).for_each(|(to, number)| to.copy_from_slice(&number.to_le_bytes()));
    ///         place.len()
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Endpoint::try_request`].
    #[inline]
    pub fn try_request_with(
        &self,
        to: Connection,
        handler: HandlerId,
        words: &[u64],
        bytes: usize,
        write: impl Fn(&mut [u8]) -> usize,
    ) -> Result<(), RequestError> {
        self.request_with::<true, _>(to, handler, words, &WrittenBy(bytes, write))
    }

    /// As [`try_call`](Endpoint::try_call), with a payload that `write` writes: see [`try_request_with`](Endpoint::try_request_with).
    ///
    /// # Errors
    /// As for [`Endpoint::try_request`].
    #[inline]
    pub fn try_call_with(
        &self,
        to: Connection,
        handler: HandlerId,
        words: &[u64],
        bytes: usize,
        write: impl Fn(&mut [u8]) -> usize,
        within: Duration,
    ) -> Result<CallId, RequestError> {
        self.call_with(to, handler, words, within, |words| self.try_request_with(to, handler, words, bytes, &write))
    }

    /// As [`try_request`](Endpoint::try_request), of a message in one frame: for a layer that has its own way for longer ones.
    ///
    /// # Errors
    /// As [`Endpoint::try_request`]; [`TooLargeForFrame`](RequestError::TooLargeForFrame) beyond one [frame](Endpoint::frame_payload).
    #[inline]
    pub fn try_request_in_frame(
        &self,
        to: Connection,
        handler: HandlerId,
        words: &[u64],
        payload: &[u8],
    ) -> Result<(), RequestError> {
        self.request_with::<false, _>(to, handler, words, payload)
    }

    #[inline(always)]
    fn request_with<const LONG: bool, P: Payload + ?Sized>(
        &self,
        to: Connection,
        handler: HandlerId,
        words: &[u64],
        payload: &P,
    ) -> Result<(), RequestError> {
        let mut node = self.node.borrow_mut();
        if node.append(to.0, Class::Request, handler, words, payload) {
            return Ok(());
        }
        let Some(frame) = node.engine.pool().take() else {
            return Err(node.note_blocked(self.id, to.0, RequestError::NoFrame));
        };
        let bytes = payload.bytes();
        if bytes >= LARGE {
            node.engine.pool().prefetch_next(bytes);
        }
        let sent = node.send::<LONG, _>(to.0, Class::Request, handler, words, payload, frame);
        sent.map_err(|(error, _)| node.note_blocked(self.id, to.0, error))
    }
}
