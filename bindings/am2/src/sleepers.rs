//! Threads that sleep in `AM_WaitSema`, and how they are woken.
//!
//! ```text
//!   the node's descriptor: frames, the next deadline ──┐
//!                                                      ├─ poll ─▶ a sleeping thread
//!   the thread's waker: another thread's call ─────────┘
//! ```
//!
//! A call of another thread may receive the message that a sleeping thread waits for. So each call, before it releases the lock, checks
//! the bundles of sleeping threads, and wakes those whose bundle has an event of its mask. It also arms the node's descriptor again. A
//! thread sleeps until the node's next deadline, or shorter, to check whether the program has closed the node's descriptors.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use am_api::{Endpoint, Node};
use am_c_runtime::Waker;

use crate::bundle::Bundle;
use crate::endpoint::Here;
use crate::lines::Totals;

thread_local! {
    /// This thread's waker, made by its first sleep.
    static WAKER: RefCell<Option<Arc<Waker>>> = const { RefCell::new(None) };
}

/// This thread's waker.
///
/// # Errors
/// The process has no descriptor left.
pub(crate) fn waker() -> io::Result<Arc<Waker>> {
    WAKER.with_borrow_mut(|own| match own {
        Some(waker) if !waker.is_lost() => Ok(waker.clone()),
        _ => {
            let waker = Arc::new(Waker::new()?);
            Ok(own.insert(waker).clone())
        }
    })
}

/// A thread that sleeps.
#[derive(Debug)]
struct Sleeper {
    bundle: Rc<Bundle>,
    waker: Arc<Waker>,
    is_woken: Cell<bool>,
}

impl Sleeper {
    /// Wake it if its bundle has an event or was freed.
    fn wake_if_due(&self, node: &Node, totals: &Totals) {
        // A bundle without endpoints was freed, or has nothing to wait for: the thread returns an error.
        // Queued messages may have room now.
        let has_lines = || totals.has_messages() && self.bundle.has_lines();
        if !self.is_woken.get() && (!self.bundle.can_wait() || self.bundle.has_event(node) || has_lines()) {
            self.is_woken.set(true);
            self.waker.wake();
        }
    }
}

/// All threads that sleep.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    all: RefCell<Vec<Sleeper>>,
    /// The current call has armed the node's descriptor, and done nothing since.
    is_armed: Cell<bool>,
}

impl Sleepers {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.borrow().is_empty()
    }

    /// This thread sleeps for a bundle from now on, on a descriptor that was just armed.
    pub(crate) fn add(&self, bundle: &Rc<Bundle>, waker: &Arc<Waker>) {
        self.all.borrow_mut().push(Sleeper {
            bundle: bundle.clone(),
            waker: waker.clone(),
            is_woken: Cell::new(false),
        });
        self.is_armed.set(true);
    }

    /// The thread of this waker sleeps no more.
    pub(crate) fn remove(&self, waker: &Arc<Waker>) {
        self.all.borrow_mut().retain(|sleeper| !Arc::ptr_eq(&sleeper.waker, waker));
        // A waker is used only under the lock, so before the thread was removed here.
        waker.clear();
    }

    /// Wake the threads that have an event. The others sleep on the node's descriptor, which becomes readable when anything arrives.
    pub(crate) fn look_after(&self, node: &Node, totals: &Totals) {
        let all = self.all.borrow();
        all.iter().for_each(|sleeper| sleeper.wake_if_due(node, totals));
        // A woken thread checks for itself.
        if self.is_armed.take() || all.iter().any(|sleeper| sleeper.is_woken.get()) {
            return;
        }
        let Some(ep) = all.iter().find_map(|sleeper| sleeper.bundle.endpoints().first().cloned()) else { return };
        arm(&ep.endpoint);
        all.iter().for_each(|sleeper| sleeper.wake_if_due(node, totals));
    }
}

/// Receive, and arm the node's descriptor, so that it becomes readable when anything arrives. The endpoint's event mask is empty, so waiting
/// messages do not prevent that.
pub(crate) fn arm(endpoint: &RefCell<Endpoint<Here>>) {
    if let Ok(mut endpoint) = endpoint.try_borrow_mut() {
        // Fails only before the first wait, if the process is out of descriptors.
        _ = endpoint.poll_events();
    }
}
