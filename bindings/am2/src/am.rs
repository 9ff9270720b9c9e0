//! The process: one node, its bundles and endpoints, and one lock.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use am_api::{Node, NodeDescriptor, NodeWaker};
use am_spmd::Place;
use parking_lot::ReentrantMutex;

use crate::code::Code;
use crate::endpoint::Ep;
use crate::tables::{Handle, Table};

/// A bundle.
#[derive(Debug)]
pub(crate) struct Bundle {
    pub(crate) handle: Handle,
    pub(crate) mask: Cell<i32>,
    /// Its endpoints. A poll shares the list, so handlers may change it meanwhile.
    endpoints: RefCell<Rc<Vec<Rc<Ep>>>>,
}

impl Bundle {
    pub(crate) fn new(handle: Handle) -> Bundle {
        Bundle { handle, mask: Cell::new(0), endpoints: RefCell::default() }
    }

    pub(crate) fn endpoints(&self) -> Rc<Vec<Rc<Ep>>> {
        self.endpoints.borrow().clone()
    }

    /// The endpoint is this bundle's from now on.
    pub(crate) fn add(&self, ep: &Rc<Ep>) {
        ep.bundle.set(self.handle);
        Rc::make_mut(&mut self.endpoints.borrow_mut()).push(ep.clone());
    }

    pub(crate) fn remove(&self, ep: Handle) {
        Rc::make_mut(&mut self.endpoints.borrow_mut()).retain(|other| other.handle != ep);
    }
}

/// Everything that `AM_Init` makes.
#[derive(Debug)]
pub(crate) struct Am {
    pub(crate) place: RefCell<Place>,
    pub(crate) node: Node,
    pub(crate) bundles: RefCell<Table<Rc<Bundle>>>,
    pub(crate) endpoints: RefCell<Table<Rc<Ep>>>,
    pub(crate) next_name: Cell<u32>,
    /// Threads that sleep in a wait.
    pub(crate) sleepers: Cell<usize>,
    pub(crate) waker: NodeWaker,
    pub(crate) descriptor: RefCell<Option<NodeDescriptor>>,
}

/// What `AM_Init` made, if it was called.
pub(crate) struct Process(pub(crate) RefCell<Option<Rc<Am>>>);

// SAFETY: the only value is in `PROCESS`, and every access is under its lock: `Rc` counts, cells and the node are touched by one
// thread at a time. No clone of an `Rc` outlives the lock that it was made under. The node's parts are bound to no thread by
// the operating system; frames that another thread drops go home by a list that is made for that.
unsafe impl Send for Process {}

/// The one process.
pub(crate) static PROCESS: ReentrantMutex<Process> = ReentrantMutex::new(Process(RefCell::new(None)));

/// Run `work` under the lock, with what `AM_Init` made.
pub(crate) fn with<T>(work: impl FnOnce(&Rc<Am>) -> Result<T, Code>) -> Result<T, Code> {
    let process = PROCESS.lock();
    let am = process.0.borrow().clone();
    work(&am.ok_or(Code::NotInit)?)
}

/// The same with one endpoint.
pub(crate) fn with_ep<T>(ep: Handle, work: impl FnOnce(&Rc<Am>, &Rc<Ep>) -> Result<T, Code>) -> Result<T, Code> {
    with(|am| {
        let ep = am.endpoints.borrow().get(ep).ok_or(Code::BadArg)?;
        work(am, &ep)
    })
}

impl Am {
    pub(crate) fn bundle(&self, handle: Handle) -> Result<Rc<Bundle>, Code> {
        self.bundles.borrow().get(handle).ok_or(Code::BadArg)
    }

    /// End an endpoint.
    pub(crate) fn free(&self, ep: &Ep) {
        self.endpoints.borrow_mut().remove(ep.handle);
        if let Ok(bundle) = self.bundle(ep.bundle.get()) {
            bundle.remove(ep.handle);
        }
    }
}
