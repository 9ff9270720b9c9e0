//! Polling and waiting.

use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use am_api::{Endpoint, Events, NotOpen};
use nix::poll::{PollFd, PollFlags, poll as poll_descriptors};

use crate::am::{Am, Bundle, with};
use crate::code::Code;
use crate::context;
use crate::endpoint::Ep;
use crate::queue;
use crate::receive;
use crate::tables::Handle;

/// What a wait is for.
pub(crate) const NOT_EMPTY: i32 = 1;
/// As [`NOT_EMPTY`].
pub(crate) const CAN_SEND: i32 = 2;

/// How long a wait sleeps before it looks again. It is woken before, except for a message that another thread's poll received in the
/// instant between a look and the sleep.
const MAX_SLEEP_MS: u8 = 100;

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
    wake_others(am, bundle.handle);
    is_busy
}

/// This thread may have received what another one waits for.
fn wake_others(am: &Am, bundle: Handle) {
    if am.sleepers.get() == 0 {
        return;
    }
    let others: Vec<Rc<Ep>> = am.endpoints.borrow().all().filter(|ep| ep.bundle.get() != bundle).cloned().collect();
    if others.iter().any(|ep| has_events(ep, NOT_EMPTY | CAN_SEND)) {
        am.waker.wake();
    }
}

/// Whether an event of the mask holds at an endpoint.
fn has_events(ep: &Ep, mask: i32) -> bool {
    let Ok(mut endpoint) = ep.endpoint.try_borrow_mut() else { return true };
    let events = endpoint.poll_events().unwrap_or(Events::empty()) - Events::WOKEN;
    let has_messages = !events.is_empty() || !ep.local.borrow().is_empty();
    (mask & NOT_EMPTY != 0 && has_messages) || (mask & CAN_SEND != 0 && can_send(ep, &endpoint))
}

/// Whether some translation of the endpoint could send a message now.
fn can_send(ep: &Ep, endpoint: &Endpoint<()>) -> bool {
    let translations = ep.translations.borrow();
    translations.iter().flatten().any(|entry| {
        entry.connection.is_none_or(|connection| match endpoint.ready(connection) {
            Ok(()) => endpoint.credit(connection) > 0,
            // A message would come back at once.
            Err(error) => error != NotOpen::Connecting,
        })
    })
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
    loop {
        let descriptor = with(|am| {
            let bundle = am.bundle(bundle)?;
            let mask = bundle.mask.get();
            if mask & (NOT_EMPTY | CAN_SEND) == 0 || context::is_in_handler() {
                // It would never end.
                return Err(Code::BadArg);
            }
            let endpoints = bundle.endpoints();
            // Twice: looking at one endpoint receives for all.
            if endpoints.iter().chain(&*endpoints).any(|ep| has_events(ep, mask)) {
                return Ok(None);
            }
            // Without an endpoint there is none, and nothing to wait for.
            let descriptor = am.descriptor.borrow().clone().ok_or(Code::BadArg)?;
            am.sleepers.set(am.sleepers.get() + 1);
            Ok(Some(descriptor))
        })?;
        let Some(descriptor) = descriptor else { return Ok(()) };
        // A signal ends it sooner, which is no event.
        _ = poll_descriptors(&mut [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)], MAX_SLEEP_MS);
        with(|am| {
            am.sleepers.set(am.sleepers.get() - 1);
            Ok(())
        })?;
    }
}
