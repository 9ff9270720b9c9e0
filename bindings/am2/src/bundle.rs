//! A bundle: endpoints that are polled together, and the events that it waits for.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use am_api::{Endpoint, Events, Node, NotOpen};

use crate::endpoint::{Ep, Here};
use crate::tables::Handle;

/// A message waits for its handler.
pub(crate) const NOT_EMPTY: i32 = 1;
/// Some translation could send a message.
pub(crate) const CAN_SEND: i32 = 2;

/// What waits for handlers of an endpoint.
const MESSAGES: Events = Events::MESSAGES.union(Events::RETURNED);

/// A bundle.
#[derive(Debug)]
pub(crate) struct Bundle {
    pub(crate) handle: Handle,
    pub(crate) mask: Cell<i32>,
    /// An endpoint may have work that its node does not know: see [`Ep::has_own_work`].
    pub(crate) has_work: Rc<Cell<bool>>,
    /// Its endpoints. A poll shares the list, so handlers may change it meanwhile.
    endpoints: RefCell<Rc<Vec<Rc<Ep>>>>,
}

impl Bundle {
    pub(crate) fn new(handle: Handle) -> Bundle {
        Bundle { handle, mask: Cell::new(0), has_work: Rc::default(), endpoints: RefCell::default() }
    }

    pub(crate) fn endpoints(&self) -> Rc<Vec<Rc<Ep>>> {
        self.endpoints.borrow().clone()
    }

    /// The endpoint is this bundle's from now on.
    pub(crate) fn add(&self, ep: &Rc<Ep>) {
        ep.bundle.set(self.handle);
        ep.bundle_has_work.replace(self.has_work.clone());
        self.has_work.set(true);
        Rc::make_mut(&mut self.endpoints.borrow_mut()).push(ep.clone());
    }

    pub(crate) fn remove(&self, ep: Handle) {
        Rc::make_mut(&mut self.endpoints.borrow_mut()).retain(|other| other.handle != ep);
    }

    /// Whether a wait may sleep: it has events to wait for, and an endpoint where they can happen.
    pub(crate) fn can_wait(&self) -> bool {
        self.mask.get() & (NOT_EMPTY | CAN_SEND) != 0 && !self.endpoints.borrow().is_empty()
    }

    /// Whether a message of its endpoints waits to leave.
    pub(crate) fn has_lines(&self) -> bool {
        self.endpoints.borrow().iter().any(|ep| !ep.lines.is_empty())
    }

    /// Whether an event of its mask holds, by what the node has received so far.
    pub(crate) fn has_event(&self, node: &Node) -> bool {
        let mask = self.mask.get();
        if mask & CAN_SEND == 0 && !self.has_work.get() && !node.has_work() {
            return false;
        }
        self.endpoints.borrow().iter().any(|ep| {
            // In use by a handler, which runs because something happened.
            let Ok(endpoint) = ep.endpoint.try_borrow() else { return true };
            let has_message =
                || endpoint.pending_events().intersects(MESSAGES) || !ep.local.is_empty() || ep.lines.has_request();
            (mask & NOT_EMPTY != 0 && has_message()) || (mask & CAN_SEND != 0 && can_send(ep, &endpoint))
        })
    }
}

/// Whether some translation of the endpoint could send a message now.
fn can_send(ep: &Ep, endpoint: &Endpoint<Here>) -> bool {
    let translations = ep.translations.borrow();
    translations.iter().flatten().any(|entry| {
        entry.connection.is_none_or(|connection| match endpoint.ready(connection) {
            Ok(()) => endpoint.credit(connection) > 0,
            // A message would come back at once.
            Err(error) => error != NotOpen::Connecting,
        })
    })
}
