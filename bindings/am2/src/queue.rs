//! What handlers sent and could not leave at once: the parts of long replies, and messages that go back to their senders.

use am_api::HandlerId;

use crate::endpoint::{Ep, Queued, To};

/// Send what can leave now. In a handler of this endpoint nothing does: the next poll sends it.
pub(crate) fn flush(ep: &Ep) {
    let Ok(endpoint) = ep.endpoint.try_borrow() else { return };
    while let Some(Queued { to, kind, words, payload }) = ep.queued.borrow_mut().pop_front() {
        let handler = HandlerId(kind as u8);
        match to {
            To::Connection(connection) => match endpoint.try_request(connection, handler, &words, &payload) {
                Err(error) if error.is_temporary() => {
                    let back = Queued { to: To::Connection(connection), kind, words, payload };
                    ep.queued.borrow_mut().push_front(back);
                    return;
                }
                // Nobody is left who wants it.
                Ok(()) | Err(_) => {}
            },
            To::Token(token) => _ = token.reply(handler, &words, &payload),
        }
    }
}
