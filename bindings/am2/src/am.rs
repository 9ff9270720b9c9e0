//! The process: one node, its bundles and endpoints, and one lock.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;

use am_api::{Endpoint, Events};
use am_c_runtime::{KeptPlace, NodeOwner};

use crate::bundle::Bundle;
use crate::code::Code;
use crate::endpoint::{Common, Ep};
use crate::lock::Lock;
use crate::sleepers::Sleepers;
use crate::tables::{Handle, Table};

/// No endpoint of a program has this name.
const PUMP: &str = "am2-pump";

/// Everything that `AM_Init` makes.
#[derive(Debug)]
pub(crate) struct Am {
    /// The place's: handlers may ask while the place is in use.
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) common: Rc<Common>,
    pub(crate) bundles: RefCell<Table<Rc<Bundle>>>,
    /// Endpoints that were freed, until what they have sent has arrived.
    pub(crate) leaving: RefCell<Vec<Rc<Ep>>>,
    /// Polled where a bundle has no endpoint: the node has to answer all the same.
    pub(crate) pump: RefCell<Option<Endpoint<()>>>,
    pub(crate) next_name: Cell<u32>,
    pub(crate) sleepers: Sleepers,
    /// Polls that have found nothing.
    pub(crate) idle_polls: Cell<u32>,
    pub(crate) owner: NodeOwner,
    /// Moves the node's clock.
    #[cfg(feature = "echo")]
    pub(crate) hand: Option<am_api::ManualClock>,
}

/// What `AM_Init` made, if it was called.
pub(crate) struct Process {
    pub(crate) am: RefCell<Option<Rc<Am>>>,
    /// It outlives `AM_Terminate`.
    pub(crate) place: RefCell<KeptPlace>,
    /// Calls that are under way: more than one while a handler calls the library.
    depth: Cell<usize>,
}

// SAFETY: the only value is in `PROCESS`, and every access is under its lock: `Rc` counts, cells and the node are touched by one
// thread at a time. No clone of an `Rc` outlives the lock that it was made under. The node's parts are bound to no thread by
// the operating system; frames that another thread drops go home by a list that is made for that.
unsafe impl Send for Process {}

/// The one process.
pub(crate) static PROCESS: Lock<Process> =
    Lock::new(Process { am: RefCell::new(None), place: RefCell::new(KeptPlace::empty()), depth: Cell::new(0) });

/// A call is under way, also if it panics.
struct Call<'a>(&'a Cell<usize>);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// In a child that was forked from the process with the node, every call is refused: what both sent would break the parent's connections.
/// To be called before the lock is taken: the child may inherit it locked by a thread that it does not have.
#[inline]
pub(crate) fn not_in_child() -> Result<(), Code> {
    if am_api::is_forked_child() { Err(Code::BadArg) } else { Ok(()) }
}

/// Run `work` under the lock, with what `AM_Init` made. Threads that sleep are woken for what it has received or done for them.
pub(crate) fn with<T>(work: impl FnOnce(&Rc<Am>) -> Result<T, Code>) -> Result<T, Code> {
    not_in_child()?;
    let process = PROCESS.lock();
    let am = process.am.borrow().clone().ok_or(Code::NotInit)?;
    process.depth.set(process.depth.get() + 1);
    let call = Call(&process.depth);
    let result = work(&am);
    drop(call);
    if process.depth.get() == 0 && !am.sleepers.is_empty() {
        am.sleepers.look_after(&am.node, &am.totals);
    }
    result
}

/// The same with one endpoint.
pub(crate) fn with_ep<T>(ep: Handle, work: impl FnOnce(&Rc<Am>, &Rc<Ep>) -> Result<T, Code>) -> Result<T, Code> {
    with(|am| {
        let ep = am.endpoints.borrow().get(ep).ok_or(Code::BadArg)?;
        work(am, &ep)
    })
}

/// The same for a call that changes nothing that a thread could wait for.
pub(crate) fn look_at<T>(ep: Handle, look: impl FnOnce(&Ep) -> Result<T, Code>) -> Result<T, Code> {
    not_in_child()?;
    let process = PROCESS.lock();
    let am = process.am.borrow().clone().ok_or(Code::NotInit)?;
    let ep = am.endpoints.borrow().get(ep).ok_or(Code::BadArg)?;
    look(&ep)
}

/// Look whether the program has closed descriptors of the library, and end the node and its endpoints then.
///
/// # Errors
/// It has.
#[cold]
pub(crate) fn hang_up_if_lost() -> Result<(), Code> {
    not_in_child()?;
    let process = PROCESS.lock();
    let is_lost = process.am.borrow().as_ref().is_some_and(|am| am.owner.is_lost());
    if is_lost && process.depth.get() == 0 {
        eprintln!(
            "libam2: this program has closed descriptors of libam2 (closefrom, close_range, dup2), and the endpoints \
             have gone with them; AM_Init starts anew"
        );
        // It closes what it still has.
        drop(process.am.take());
        return Err(Code::Resource);
    }
    Ok(())
}

/// Exchange the process for another one. All that one of them refers to moves with it, so no thread has a part of both.
///
/// # Errors
/// A call is under way.
#[cfg(feature = "echo")]
pub(crate) fn switch(other: &mut Option<Rc<Am>>) -> Result<(), Code> {
    let process = PROCESS.lock();
    let mut am = process.am.borrow_mut();
    if process.depth.get() > 0 || am.as_ref().is_some_and(|am| !am.sleepers.is_empty()) {
        return Err(Code::InUse);
    }
    std::mem::swap(&mut *am, other);
    Ok(())
}

impl Deref for Am {
    type Target = Common;

    #[inline]
    fn deref(&self) -> &Common {
        &self.common
    }
}

impl Am {
    pub(crate) fn bundle(&self, handle: Handle) -> Result<Rc<Bundle>, Code> {
        self.bundles.borrow().get(handle).ok_or(Code::BadArg)
    }

    /// Take an endpoint out of the tables.
    pub(crate) fn remove(&self, ep: &Ep) {
        self.endpoints.borrow_mut().remove(ep.handle);
        if let Ok(bundle) = self.bundle(ep.bundle.get()) {
            bundle.remove(ep.handle);
        }
    }

    /// All endpoints, also those that were freed and have not left.
    pub(crate) fn all_endpoints(&self) -> Vec<Rc<Ep>> {
        let mut all: Vec<Rc<Ep>> = self.endpoints.borrow().all().cloned().collect();
        all.extend(self.leaving.borrow().iter().cloned());
        all
    }

    /// A turn of the node that runs no handler. Returns whether anything happened.
    pub(crate) fn turn(&self) -> bool {
        let mut pump = self.pump.borrow_mut();
        if pump.is_none() {
            // All 65,535 endpoints may be in use: then the program polls one of them.
            *pump = self.node.endpoint::<()>(PUMP).ok();
            pump.iter_mut().for_each(|pump| pump.set_event_mask(Events::empty()));
        }
        pump.as_mut().is_some_and(|pump| pump.poll(&mut ()) > 0)
    }
}
