//! Polling and waiting.

use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;

use am_c_runtime::thread_end;
use nix::libc::{POLLIN, c_int, nfds_t, pollfd};

use crate::am::{self, Am, with};
use crate::bundle::Bundle;
use crate::code::Code;
use crate::context;
use crate::endpoint::Ep;
use crate::leave;
use crate::lost;
use crate::queue;
use crate::receive;
use crate::sleepers;
use crate::tables::Handle;

/// The most messages of this process to itself that one poll runs.
const MAX_LOCAL: usize = 64;
/// Milliseconds between two checks of a sleeping thread that the node's descriptors are open.
const LOOK: c_int = 1000;
/// Milliseconds between two checks of leaving endpoints and requests that wait.
const LOOK_AT_WAITING: c_int = 10;

/// Poll a bundle: run the handlers of received messages, send queued ones. Returns whether anything was done.
pub(crate) fn poll(am: &Am, bundle: &Bundle) -> bool {
    let endpoints = bundle.endpoints();
    let mut is_busy = queue::flush_all(am);
    let has_own_work = bundle.has_work.take();
    for (at, ep) in endpoints.iter().enumerate() {
        // The first one receives for all of the node, and of the others only those with work are polled.
        if at == 1 && !(has_own_work || bundle.has_work.get() || am.node.has_work()) {
            break;
        }
        let has_own_work = ep.has_own_work();
        if at == 0 || has_own_work || has_work(ep) {
            is_busy |= poll_one(am, ep, has_own_work);
        }
    }
    if endpoints.is_empty() {
        // Without endpoints, turn the node alone: it returns requests to freed endpoints, and answers its peers.
        is_busy |= am.turn();
    }
    is_busy |= queue::flush_all(am);
    leave::drive(am);
    is_busy
}

/// Whether the node has something for this endpoint.
fn has_work(ep: &Ep) -> bool {
    ep.endpoint.try_borrow().is_ok_and(|endpoint| !endpoint.pending_events().is_empty())
}

fn poll_one(am: &Am, ep: &Rc<Ep>, has_own_work: bool) -> bool {
    #[cfg(test)]
    tests::POLLED.set(tests::POLLED.get() + 1);
    let mut is_busy = has_own_work && run_own_work(am, ep);
    is_busy |= ep.turn(&am.common) > 0;
    if ep.has_own_work() {
        lost::end_gets(ep);
        leave::close_unmapped(ep);
        ep.note_work();
    }
    is_busy
}

/// Run the handlers of requests that have waited, and of messages of this process to itself. Returns whether there were any.
fn run_own_work(am: &Am, ep: &Rc<Ep>) -> bool {
    let mut is_busy = queue::run_waiting(am, ep);
    for _ in 0..MAX_LOCAL {
        let has_room = |from| am.endpoints.borrow().get(from).is_none_or(|from| from.local.has_room_for_reply());
        let Some(local) = ep.local.pop(has_room) else { break };
        receive::on_local(am, ep, &local);
        is_busy = true;
    }
    is_busy
}

unsafe extern "C-unwind" {
    #[link_name = "poll"]
    fn poll_descriptors(all: *mut pollfd, count: nfds_t, milliseconds: c_int) -> c_int;
}

/// `AM_WaitSema`: sleep until an event of the bundle's mask holds. The lock is free meanwhile.
pub(crate) fn wait(bundle: Handle) -> Result<(), Code> {
    let waker = sleepers::waker().map_err(|_| Code::Resource)?;
    loop {
        let found = with(|am| {
            let bundle = am.bundle(bundle)?;
            if !bundle.can_wait() || context::is_in_handler() {
                // The wait would never end.
                return Err(Code::BadArg);
            }
            let endpoints = bundle.endpoints();
            let ep = endpoints.first().ok_or(Code::BadArg)?;
            let is_leaving = leave::drive(am);
            loop {
                sleepers::arm(&ep.endpoint);
                // The frames just received may have brought credit for queued messages.
                if !queue::flush_all(am) {
                    break;
                }
            }
            if bundle.has_event(&am.node) {
                return Ok(None);
            }
            let descriptor = ep.endpoint.borrow().descriptor().map_err(|_| Code::Resource)?;
            am.sleepers.add(&bundle, &waker);
            // Queued messages need no deadline, because a frame with credit wakes this thread. Leaving endpoints and waiting requests do.
            let is_waiting = is_leaving || am.totals.requests() > 0;
            Ok(Some((descriptor, if is_waiting { LOOK_AT_WAITING } else { LOOK })))
        });
        // Without its descriptors the node cannot even prepare a wait.
        let found = found.or_else(|code| am::hang_up_if_lost().and(Err(code)))?;
        let Some((descriptor, milliseconds)) = found else { return Ok(()) };
        let fds = [descriptor.as_raw_fd(), waker.as_fd().as_raw_fd()];
        // A signal ends the wait sooner. It is no event.
        let waited = thread_end::cancellable(move || {
            let mut both = fds.map(|fd| pollfd { fd, events: POLLIN, revents: 0 });
            // SAFETY: two descriptors, which stay open meanwhile, and places for two answers.
            unsafe { poll_descriptors(both.as_mut_ptr(), 2, milliseconds) }
        });
        with(|am| {
            am.sleepers.remove(&waker);
            Ok(())
        })?;
        if waited.is_none() {
            return Err(Code::Resource);
        }
        am::hang_up_if_lost()?;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::ptr;

    use super::*;
    use crate::calls::{AM_AllocateBundle, AM_AllocateEndpoint, AM_Init, AM_Map, AM_SetTag, AM_Terminate};
    use crate::events::{AM_Poll, AM2_SetHandler};
    use crate::messages::AM2_Request;
    use crate::name::Name;

    thread_local! {
        /// The endpoints that polls of this thread have polled.
        pub(super) static POLLED: Cell<usize> = const { Cell::new(0) };
        static HANDLED: Cell<usize> = const { Cell::new(0) };
    }

    unsafe extern "C-unwind" fn on_request() {
        HANDLED.set(HANDLED.get() + 1);
    }

    /// How many endpoints one poll of the bundle polls.
    fn polled(bundle: Handle) -> usize {
        let before = POLLED.get();
        assert_eq!(AM_Poll(bundle), 0);
        POLLED.get() - before
    }

    #[test]
    fn a_poll_skips_endpoints_without_work() {
        const ENDPOINTS: usize = 2000;
        let (mut bundle, mut endpoints, mut names) = (ptr::null_mut(), vec![], vec![]);
        assert_eq!(AM_Init(), 0);
        // SAFETY: there is room for what the calls return, and the handler takes no more than it is called with.
        unsafe {
            assert_eq!(AM_AllocateBundle(0, &raw mut bundle), 0);
            for _ in 0..ENDPOINTS {
                let (mut ep, mut name) = (ptr::null_mut(), Name::new("a", "b", "").unwrap());
                assert_eq!(AM_AllocateEndpoint(bundle, &raw mut ep, &raw mut name), 0);
                assert_eq!((AM_SetTag(ep, u64::MAX), AM2_SetHandler(ep, 1, Some(on_request))), (0, 0));
                endpoints.push(ep);
                names.push(name);
            }
            polled(bundle);
            assert_eq!(polled(bundle), 1, "the first one receives");
            let (from, to) = (endpoints[ENDPOINTS - 1], names[ENDPOINTS / 2]);
            assert_eq!((AM_Map(from, 0, to, 7), AM2_Request(from, 0, 1, 0, ptr::null())), (0, 0));
        }
        let both = polled(bundle);
        assert_eq!((HANDLED.get(), both), (1, 2), "the first one, and the one with a message");
        polled(bundle);
        assert_eq!(polled(bundle), 1, "nothing is left");
        assert_eq!(AM_Terminate(), 0);
    }
}
