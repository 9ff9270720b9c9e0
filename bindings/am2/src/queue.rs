//! What handlers sent and could not leave at once leaves, and the requests that wait for that run.

use am_api::{Connection, Endpoint, HandlerId};

use crate::am::Am;
use crate::endpoint::{Ep, Here};
use crate::header::without_zeros;
use crate::lines::{By, Queued};
use crate::receive;

/// The most messages of a connection that leave before it is another's turn.
const IN_A_ROW: usize = 64;
/// The most requests that have waited and that one poll runs.
const MAX_REQUESTS: usize = 64;

/// Send what can leave now, of all endpoints of the process. Returns whether something did.
#[inline]
pub(crate) fn flush_all(am: &Am) -> bool {
    am.totals.has_messages() && flush_each(am)
}

#[cold]
fn flush_each(am: &Am) -> bool {
    let mut has_sent = false;
    for ep in am.all_endpoints() {
        has_sent |= flush(&ep);
    }
    has_sent
}

/// Send what can leave now. In a handler of this endpoint nothing does: the next poll sends it.
pub(crate) fn flush(ep: &Ep) -> bool {
    if ep.lines.is_empty() {
        return false;
    }
    let Ok(endpoint) = ep.endpoint.try_borrow() else { return false };
    let mut has_sent = false;
    for connection in ep.lines.connections() {
        has_sent |= flush_one(ep, &endpoint, connection);
    }
    has_sent
}

fn flush_one(ep: &Ep, endpoint: &Endpoint<Here>, connection: Connection) -> bool {
    let mut count = 0;
    while count < IN_A_ROW
        && let Some(message) = ep.lines.pop(connection)
    {
        match send(endpoint, connection, message) {
            Sent::Yes => count += 1,
            Sent::Later(message) => {
                ep.lines.put_back(connection, message);
                break;
            }
            Sent::Never => {
                ep.lines.forget(connection);
                return true;
            }
        }
    }
    ep.lines.set_kept(connection, endpoint.kept_bytes(connection));
    count > 0
}

enum Sent {
    Yes,
    /// There is no room.
    Later(Queued),
    /// The connection has ended: no peer is left that wants it.
    Never,
}

fn send(endpoint: &Endpoint<Here>, connection: Connection, message: Queued) -> Sent {
    let Queued { by, kind, words, payload } = message;
    let (handler, sent) = (HandlerId(kind as u8), without_zeros(&words));
    let held = match by {
        By::Token(token) => {
            let is_sent = token.reply(handler, sent, &payload).is_ok();
            return if is_sent { Sent::Yes } else { Sent::Never };
        }
        By::Request(held) => held,
    };
    match endpoint.try_request(connection, handler, sent, &payload) {
        Ok(()) => Sent::Yes,
        Err(error) if error.is_temporary() => Sent::Later(Queued { by: By::Request(held), kind, words, payload }),
        Err(_) => Sent::Never,
    }
}

/// Run the handlers of requests that have waited, and may run now. Returns whether there were any.
pub(crate) fn run_waiting(am: &Am, ep: &Ep) -> bool {
    for count in 0..MAX_REQUESTS {
        let Some(request) = ep.lines.next_request() else { return count > 0 };
        receive::on_waiting(am, ep, request);
        flush(ep);
    }
    true
}
