//! Polling and waiting.

use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll as poll_descriptors};

use crate::am::{self, Am, with};
use crate::bundle::Bundle;
use crate::code::Code;
use crate::context;
use crate::endpoint::Ep;
use crate::queue;
use crate::receive;
use crate::sleepers;
use crate::tables::Handle;

/// How long a thread sleeps without a look at the node's descriptors.
const LOOK_MS: u16 = 1000;

/// The most messages of this process to itself that one poll runs.
const MAX_LOCAL: usize = 64;

/// Poll a bundle: run the handlers of what has arrived, send what waits. Returns whether anything happened.
pub(crate) fn poll(am: &Am, bundle: &Bundle) -> bool {
    let mut is_busy = false;
    for ep in &*bundle.endpoints() {
        queue::flush(ep);
        for _ in 0..MAX_LOCAL {
            let Some(local) = ep.local.borrow_mut().pop_front() else { break };
            receive::on_local(am, ep, &local);
            is_busy = true;
        }
        // A handler that polls finds it in use.
        if let Ok(mut endpoint) = ep.endpoint.try_borrow_mut() {
            is_busy |= endpoint.poll(&mut ()) > 0;
        }
        queue::flush(ep);
    }
    is_busy
}

/// Everything that handlers sent is on its way, or has come back. Bounded by the node's patience.
pub(crate) fn flush(am: &Am) {
    let endpoints: Vec<Rc<Ep>> = am.endpoints.borrow().all().cloned().collect();
    for ep in &endpoints {
        while !ep.queued.borrow().is_empty() {
            queue::flush(ep);
            ep.endpoint.borrow_mut().wait(&mut (), Duration::from_millis(1));
        }
    }
}

/// `AM_WaitSema`: sleep until an event of the bundle's mask holds. The lock is free meanwhile.
pub(crate) fn wait(bundle: Handle) -> Result<(), Code> {
    let waker = sleepers::waker().map_err(|_| Code::Resource)?;
    loop {
        let descriptor = with(|am| {
            let bundle = am.bundle(bundle)?;
            if !bundle.can_wait() || context::is_in_handler() {
                // It would never end.
                return Err(Code::BadArg);
            }
            let endpoints = bundle.endpoints();
            let ep = endpoints.first().ok_or(Code::BadArg)?;
            sleepers::arm(&ep.endpoint);
            if bundle.has_event() {
                return Ok(None);
            }
            let descriptor = ep.endpoint.borrow().descriptor().map_err(|_| Code::Resource)?;
            am.sleepers.add(&bundle, &waker);
            Ok(Some(descriptor))
        });
        // Without its descriptors the node cannot even prepare a wait.
        let descriptor = descriptor.or_else(|code| am::hang_up_if_lost().and(Err(code)))?;
        let Some(descriptor) = descriptor else { return Ok(()) };
        let readable = |of| PollFd::new(of, PollFlags::POLLIN);
        // A signal ends it sooner, which is no event.
        _ = poll_descriptors(&mut [readable(descriptor.as_fd()), readable(waker.as_fd())], PollTimeout::from(LOOK_MS));
        with(|am| {
            am.sleepers.remove(&waker);
            Ok(())
        })?;
        am::hang_up_if_lost()?;
    }
}
