//! What goes when its messages have arrived: an endpoint that the program has freed, the connection of a translation that it has unmapped.
//!
//! ```text
//!   AM_FreeEndpoint ─▶ what it has sent arrives, and what comes meanwhile goes back ─▶ closed
//!   AM_Unmap ────────▶ Last, behind all requests ─▶ its answer, behind all replies ───────▶ closed
//! ```
//!
//! Every poll of the process goes on with it, and `AM_Terminate` to the end. A request that goes back keeps its credit, so its sender stops
//! soon. An endpoint goes without what is left when nothing has arrived for [`PATIENCE`].

use std::rc::Rc;
use std::time::{Duration, Instant};

use am_api::{Connection, Endpoint, Events, HandlerId};

use crate::am::Am;
use crate::code::Status;
use crate::endpoint::{Ep, Leave, Unmapped};
use crate::header::Kind;
use crate::queue;
use crate::receive;

/// How long a peer may take nothing of what an endpoint has sent that leaves.
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

/// Whether an endpoint of this name has been freed, and has not left.
pub(crate) fn is_leaving(am: &Am, name: &str) -> bool {
    am.leaving.borrow().iter().any(|ep| ep.name.is_endpoint(name))
}

/// Go on with the endpoints that leave. Returns whether any are left.
pub(crate) fn drive(am: &Am) -> bool {
    let leaving = am.leaving.borrow().clone();
    for ep in &leaving {
        if step(ep) {
            am.leaving.borrow_mut().retain(|other| !Rc::ptr_eq(other, ep));
        }
    }
    !am.leaving.borrow().is_empty()
}

/// Returns whether it is ready to be closed: all that it has sent has arrived, and all that has arrived has its answer. What comes later has
/// not been acknowledged, so the node returns it.
fn step(ep: &Ep) -> bool {
    let Some(leave) = ep.leave.get() else { return true };
    queue::flush(ep);
    if let Ok(mut endpoint) = ep.endpoint.try_borrow_mut() {
        // Handlers of the library run, and none of the program's.
        endpoint.poll(&mut ());
    }
    queue::flush(ep);
    let (left, now) = (left(ep), Instant::now());
    if left < leave.left {
        ep.leave.set(Some(Leave { left, until: now + PATIENCE }));
    }
    left == 0 || now >= leave.until
}

/// The bytes that wait, the connections by which something is on its way, and whether messages wait for an answer.
fn left(ep: &Ep) -> usize {
    let endpoint = ep.endpoint.borrow();
    let under_way = |connection: &Connection| !endpoint.is_accepted(*connection);
    let has_messages = endpoint.pending_events().contains(Events::MESSAGES);
    ep.lines.bytes() + ep.connections().into_iter().filter(under_way).count() + usize::from(has_messages)
}

/// A translation is mapped no more. Its connection closes when the answers to its requests are here.
pub(crate) fn unmap(ep: &Ep, connection: Connection) {
    ep.unmapped.borrow_mut().push(Unmapped { connection, is_asked: false, is_answered: false });
    close_unmapped(ep);
}

/// Go on with the connections of translations that were unmapped. In a handler of this endpoint the next poll does.
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

fn may_close(ep: &Ep, endpoint: &Endpoint<()>, unmapped: Unmapped) -> bool {
    let Unmapped { connection, is_asked, is_answered } = unmapped;
    if endpoint.ready(connection).is_err() {
        // It did not open, so nothing was sent; or it has ended.
        return !ep.has_gets(connection);
    }
    if is_asked {
        return is_answered && !ep.has_arriving_reply(connection);
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
