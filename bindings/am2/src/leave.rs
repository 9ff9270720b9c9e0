//! Leaving: an endpoint that the program has freed, or the connection of a translation that it has unmapped, is closed when its messages have
//! arrived.
//!
//! ```text
//!   AM_FreeEndpoint ─▶ its messages arrive; messages for it return to their senders ───────▶ closed
//!   AM_Unmap ────────▶ Last, behind all requests ─▶ its answer, behind all replies ───────▶ closed
//! ```
//!
//! Every poll of the process continues this, and `AM_Terminate` finishes it. The credit of a returned request is withheld, so its sender stops
//! soon. If no message has arrived for [`PATIENCE`], the endpoint is closed, and the rest is lost.

use std::rc::Rc;
use std::time::{Duration, Instant};

use am_api::{Connection, Endpoint, Events, HandlerId};

use crate::am::Am;
use crate::code::Status;
use crate::endpoint::{Ep, Here, Leave, Unmapped};
use crate::header::Kind;
use crate::queue;
use crate::receive;

/// How long a peer may accept no message of a leaving endpoint.
const PATIENCE: Duration = Duration::from_secs(30);

/// Free an endpoint. No handler of it runs any more.
pub(crate) fn free(am: &Am, ep: &Rc<Ep>) {
    am.remove(ep);
    ep.leave.set(Some(Leave { left: usize::MAX, until: Instant::now() + PATIENCE }));
    while let Some(local) = ep.local.pop(|_| true) {
        receive::refuse_local(am, ep, &local);
    }
    let waiting = ep.lines.take_requests();
    waiting.into_iter().for_each(|request| receive::refuse(am, ep, request, Status::BadEndpoint));
    am.leaving.borrow_mut().push(ep.clone());
    drive(am);
}

/// Whether an endpoint of this name was freed, and has not left yet.
pub(crate) fn is_leaving(am: &Am, name: &str) -> bool {
    am.leaving.borrow().iter().any(|ep| ep.name.is_endpoint(name))
}

/// Continue with the leaving endpoints. Returns whether any are left.
#[inline]
pub(crate) fn drive(am: &Am) -> bool {
    !am.leaving.borrow().is_empty() && drive_all(am)
}

#[cold]
fn drive_all(am: &Am) -> bool {
    let leaving = am.leaving.borrow().clone();
    for ep in &leaving {
        if step(am, ep) {
            am.leaving.borrow_mut().retain(|other| !Rc::ptr_eq(other, ep));
        }
    }
    !am.leaving.borrow().is_empty()
}

/// Returns whether the endpoint can be closed: all its messages have arrived, and all that it received have an answer. Later messages were not
/// acknowledged, so the node returns them.
fn step(am: &Am, ep: &Rc<Ep>) -> bool {
    let Some(leave) = ep.leave.get() else { return true };
    queue::flush(ep);
    // This runs handlers of the library only, not the program's.
    ep.turn(&am.common);
    queue::flush(ep);
    if ep.lines.has_kept() {
        // The peer needs credit to ask for the rest of a long reply, and to say that it has it.
        ep.held.borrow_mut().clear();
    }
    let (left, now) = (left(ep), Instant::now());
    if left < leave.left {
        ep.leave.set(Some(Leave { left, until: now + PATIENCE }));
    }
    left == 0 || now >= leave.until
}

/// A measure of the unfinished work: waiting bytes, connections with messages in flight, and messages without an answer.
fn left(ep: &Ep) -> usize {
    let endpoint = ep.endpoint.borrow();
    let under_way = |connection: &Connection| !endpoint.is_accepted(*connection);
    let has_messages = endpoint.pending_events().contains(Events::MESSAGES);
    ep.lines.bytes() + ep.connections().into_iter().filter(under_way).count() + usize::from(has_messages)
}

/// A translation was unmapped. Its connection is closed when the answers to its requests have arrived.
pub(crate) fn unmap(ep: &Ep, connection: Connection) {
    ep.unmapped.borrow_mut().push(Unmapped { connection, is_asked: false, is_answered: false });
    ep.note_work();
    close_unmapped(ep);
}

/// Continue with the connections of unmapped translations. In a handler of this endpoint this does nothing; the next poll does it.
pub(crate) fn close_unmapped(ep: &Ep) {
    if ep.unmapped.borrow().is_empty() {
        return;
    }
    let Ok(endpoint) = ep.endpoint.try_borrow() else { return };
    let all = ep.unmapped.borrow().clone();
    for unmapped in all {
        if may_close(ep, &endpoint, unmapped) {
            endpoint.close(unmapped.connection);
            ep.forget(unmapped.connection);
            ep.unmapped.borrow_mut().retain(|other| other.connection != unmapped.connection);
        }
    }
}

fn may_close(ep: &Ep, endpoint: &Endpoint<Here>, unmapped: Unmapped) -> bool {
    let Unmapped { connection, is_asked, is_answered } = unmapped;
    if endpoint.ready(connection).is_err() {
        // The connection did not open, so nothing was sent; or it has ended.
        return !ep.has_gets(connection);
    }
    if is_asked {
        return is_answered;
    }
    match endpoint.try_request(connection, HandlerId(Kind::Last as u8), &[], b"") {
        Ok(()) => {
            let mut all = ep.unmapped.borrow_mut();
            all.iter_mut().filter(|one| one.connection == connection).for_each(|one| one.is_asked = true);
            false
        }
        Err(error) => !error.is_temporary(),
    }
}
