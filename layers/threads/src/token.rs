//! Replies from any thread.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use am_api::{CallId, HandlerId, RequestError, Token};
use slotmap::{DefaultKey, SlotMap};

use crate::shared::{Body, Post, Shared};
use crate::words::Words;

/// The right to answer one request, once, from any thread. Dropping it declines the reply.
///
/// The node's thread sends the reply. If that fails, a shared endpoint's [`on_returned`](crate::Handlers::on_returned) gets it.
pub struct SendToken {
    shared: Arc<Shared>,
    /// `None` once it is used.
    key: Option<DefaultKey>,
    /// What an answer repeats.
    handler: HandlerId,
    id: CallId,
}

/// Converts the tokens of the node's handlers to tokens for other threads. [`Driver::tokens`](crate::Driver::tokens) returns it. It stays
/// on the node's thread, where handlers run.
///
/// ```
/// use std::sync::mpsc::Sender;
/// use am_api::{Endpoint, HandlerId};
/// use am_threads::{SendToken, Tokens};
///
/// const WORK: HandlerId = HandlerId(0);
///
/// /// A sequential endpoint: its handlers stay on this thread, and the work is done by others.
/// fn hand_out(endpoint: &mut Endpoint<()>, tokens: Tokens, to: Sender<(u64, SendToken)>) {
///     endpoint.on_request(WORK, move |(), request| {
///         // If nobody takes it, the token is dropped, which declines the reply.
///         _ = to.send((request.message.word(0), tokens.detach(request.token)));
///     });
/// }
/// ```
#[derive(Clone)]
pub struct Tokens {
    shared: Arc<Shared>,
    /// The tokens of those [`SendToken`]s that were neither used nor dropped.
    held: Rc<RefCell<SlotMap<DefaultKey, Token>>>,
}

impl SendToken {
    /// Answer a call: reply to the handler id that it named, with its id and these words (at most 3). The
    /// [`Answer`](crate::Answer) has these words and this payload.
    ///
    /// # Errors
    /// As [`SendToken::reply`].
    pub fn answer(self, words: &[u64], payload: &[u8]) -> Result<(), RequestError> {
        const MOST: usize = 3;
        let (handler, mut all, count) = (self.handler, [self.id.0; MOST + 1], words.len());
        all.get_mut(1..=count).ok_or(RequestError::TooManyWords { count, most: MOST })?.copy_from_slice(words);
        self.reply(handler, &all[..=count], payload)
    }

    /// Reply: at the side that asked, the reply handler `handler` runs with these words (at most 4) and this payload.
    ///
    /// # Errors
    /// There are too many words, or the driver was dropped. After any other failure the reply returns to
    /// [`on_returned`](crate::Handlers::on_returned).
    pub fn reply(mut self, handler: HandlerId, words: &[u64], payload: &[u8]) -> Result<(), RequestError> {
        const MOST: usize = 4;
        let words = Words::new(words).ok_or(RequestError::TooManyWords { count: words.len(), most: MOST })?;
        let Some(key) = self.key.take() else { return Err(RequestError::NodeDropped) };
        let mut state = self.shared.lock();
        if state.is_closed {
            return Err(RequestError::NodeDropped);
        }
        let payload = state.buffer(payload);
        self.shared.post(state, Post::Reply(key, Body { handler, words, payload }));
        Ok(())
    }
}

impl Drop for SendToken {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let state = self.shared.lock();
        if !state.is_closed {
            self.shared.post(state, Post::Decline(key));
        }
    }
}

impl fmt::Debug for SendToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendToken").finish_non_exhaustive()
    }
}

impl Tokens {
    pub(crate) fn new(shared: Arc<Shared>) -> Tokens {
        Tokens { shared, held: Rc::default() }
    }

    /// A token for any thread. The driver's next poll after [`SendToken::reply`] sends the reply.
    pub fn detach(&self, token: Token) -> SendToken {
        let (shared, handler, id) = (self.shared.clone(), token.handler(), token.call_id());
        SendToken { shared, key: Some(self.held.borrow_mut().insert(token)), handler, id }
    }

    /// Whether any token waits for its reply.
    pub(crate) fn is_held(&self) -> bool {
        !self.held.borrow().is_empty()
    }

    /// Take the token of this key.
    pub(crate) fn take(&self, key: DefaultKey) -> Option<Token> {
        self.held.borrow_mut().remove(key)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}
