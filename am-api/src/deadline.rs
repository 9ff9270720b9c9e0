//! Requests with a deadline: each has one outcome until then. Its answer comes, it comes back, or it is late; what answers it
//! afterwards is dropped.
//!
//! ```text
//!   request_within(.., words) ── id, words ──▶ on_request: token.reply(.., &[request.word(0), ..])
//!   on_answer(id, ..)         ◀── id, .. ──────┘
//!   on_returned               ◀── it could not be delivered
//!   on_late(id)               ◀── the time is over
//! ```

use std::time::Duration;

use am_proto::Time;
use am_wire::MAX_WORDS;

use crate::awaited::Waiting;
use crate::{Connection, Endpoint, HandlerId, Id, Message, RequestError};

/// A request that was not answered in time: what [`Endpoint::on_late`](crate::Endpoint::on_late) gets.
///
/// Its fate is unknown: it may have been handled, its answer may be on its way, or it may be handled later. A program that
/// sends such a request again needs handlers that may run twice. Where the connection ends afterwards, and the peer had
/// not received it, it comes back to [`Endpoint::on_returned`](crate::Endpoint::on_returned) in spite of this, with what is known then.
pub struct Late<'a, S> {
    /// What [`Endpoint::request_within`] had returned.
    pub id: Id,
    /// The conversation that it was sent on.
    pub to: Connection,
    /// The handler that it named.
    pub handler: HandlerId,
    /// The endpoint, as far as handlers may use it.
    pub endpoint: &'a Endpoint<S>,
}

impl<S> Endpoint<S> {
    /// A [`try_request`](Endpoint::try_request) that is to be answered in time. Until then it has exactly one of three outcomes:
    ///
    /// - [`on_answer`](crate::Endpoint::on_answer) gets its answer.
    /// - It comes back: [`on_returned`](crate::Endpoint::on_returned) gets it, and its [fate](crate::Returned::fate) says whether it may
    ///   have been handled.
    /// - It is late: [`on_late`](crate::Endpoint::on_late) gets its id after `within`. An answer that comes then is dropped and counted
    ///   (`late_answers`).
    ///
    /// The id that this returns is the first word of the request; the words given here, at most 3, follow it. The handler at
    /// the other side replies with that word as its first.
    ///
    /// ```
    /// use std::time::Duration;
    /// use am_api::{Connection, Endpoint, HandlerId, Request, RequestError};
    ///
    /// const SQUARE: HandlerId = HandlerId(0);
    /// const RESULT: HandlerId = HandlerId(0);
    ///
    /// fn serve(endpoint: &mut Endpoint<()>) {
    ///     endpoint.on_request(SQUARE, |(), Request { message: request, token }| {
    ///         let (id, number) = (request.word(0), request.word(1));
    ///         token.reply(RESULT, &[id, number * number], b"").unwrap_or_else(|error| eprintln!("{error}"));
    ///     });
    /// }
    ///
    /// fn listen(endpoint: &mut Endpoint<Vec<String>>) {
    ///     endpoint.on_answer(RESULT, |log, answer| log.push(format!("{}: {}", answer.word(0), answer.word(1))));
    ///     endpoint.on_returned(|log, back| log.push(format!("{}: {}", back.message.word(0), back.reason)));
    ///     endpoint.on_late(|log, late| log.push(format!("{}: no answer in time", late.id.0)));
    /// }
    ///
    /// fn ask(port: &Endpoint<Vec<String>>, to: Connection) -> Result<(), RequestError> {
    ///     port.request_within(to, SQUARE, &[12], b"", Duration::from_millis(200)).map(|_id| ())
    /// }
    /// ```
    ///
    /// # Errors
    /// As for [`Endpoint::try_request`]: it was not sent, and has no other outcome.
    pub fn request_within(
        &self,
        to: Connection,
        handler: HandlerId,
        words: &[u64],
        payload: &[u8],
        within: Duration,
    ) -> Result<Id, RequestError> {
        let mut all = [0; MAX_WORDS];
        let count = words.len() + 1;
        all.get_mut(1..count).ok_or(RequestError::TooManyWordsWithin(words.len()))?.copy_from_slice(words);
        let due = self.node.borrow().clock.now() + within;
        let mut deadlines = self.deadlines.borrow_mut();
        let id = deadlines.add(Waiting { flow: to.0, handler }, due);
        all[0] = id.0;
        self.try_request(to, handler, &all[..count], payload).inspect_err(|_| _ = deadlines.take(id.0, |_| true))?;
        Ok(id)
    }

    /// Whether this answers a request that waits still.
    pub(crate) fn is_in_time(&self, answer: &Message<'_, S>) -> bool {
        let is_it = self.deadlines.borrow_mut().take(answer.word(0), |waiting| waiting.flow == answer.from().0);
        self.node.borrow_mut().tally.late_answers += u64::from(!is_it);
        is_it
    }

    /// A request of this endpoint came back: it is not late any more.
    pub(crate) fn came_back(&self, request: &Message<'_, S>) {
        let (flow, handler) = (request.from().0, request.handler());
        let is_it = |waiting: &Waiting| (waiting.flow, waiting.handler) == (flow, handler);
        self.deadlines.borrow_mut().take(request.word(0), is_it);
    }

    pub(crate) fn next_late(&self, now: Time) -> Option<Late<'_, S>> {
        let (id, Waiting { flow, handler }) = self.deadlines.borrow_mut().pop(now)?;
        Some(Late { id, to: Connection(flow), handler, endpoint: self })
    }
}
