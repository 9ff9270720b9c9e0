//! An endpoint's tables: handlers, translations, segment, tag; and what waits in it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ptr;
use std::rc::Rc;
use std::time::Instant;

use am_api::{Connection, Endpoint, ForeignMemory, ForeignPart, Node, OwnedMessage};

use crate::code::{Code, Status};
use crate::header::{Extent, Header};
use crate::invoke::HandlerFn;
use crate::lines::{Lines, Totals};
use crate::local::{Local, Locals};
use crate::name::Name;
use crate::tables::{Handle, Table};

/// The most handlers of an endpoint: a message has 8 bits for one.
pub(crate) const MAX_HANDLERS: usize = 256;
/// The most translations of an endpoint: a node has no more connections.
pub(crate) const MAX_TRANSLATIONS: usize = am_api::MAX_TRANSLATIONS;
/// Translations of a new endpoint.
const TRANSLATIONS: usize = 256;

/// Which tags an endpoint accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(pub(crate) u64);

impl Tag {
    /// `AM_NONE`: no message.
    pub(crate) const NONE: u64 = 0;
    /// `AM_ALL`: every message.
    pub(crate) const ALL: u64 = u64::MAX;

    pub(crate) fn accepts(self, tag: u64) -> bool {
        self.0 == Tag::ALL || (self.0 != Tag::NONE && self.0 == tag)
    }
}

/// An entry of the translation table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Translation {
    pub(crate) name: Name,
    pub(crate) tag: u64,
    /// The name is that of an endpoint of this process.
    pub(crate) is_own: bool,
    /// Made by the first message.
    pub(crate) connection: Option<Connection>,
    /// The other side has this endpoint's name.
    pub(crate) is_greeted: bool,
    /// How often requests are still refused the connection's last credit. 0 before it has had more than one.
    pub(crate) reserved: u32,
}

/// A get that has no answer yet.
#[derive(Debug)]
pub(crate) struct PendingGet {
    /// Where its bytes go.
    pub(crate) memory: ForeignMemory,
    pub(crate) header: Header,
    pub(crate) index: usize,
    /// Once it has left.
    pub(crate) connection: Option<Connection>,
}

/// The connection of a translation that is mapped no more. It stays until the answers to its requests are here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unmapped {
    pub(crate) connection: Connection,
    /// The last request has left.
    pub(crate) is_asked: bool,
    /// Its answer is here.
    pub(crate) is_answered: bool,
}

/// A connection that ended. Messages that came by it may still wait for their handlers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    pub(crate) connection: Connection,
    pub(crate) why: Status,
    /// After this number of polls all of them were handled.
    pub(crate) polls: u32,
}

/// How far an endpoint is that was freed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leave {
    /// What had not arrived at the last progress.
    pub(crate) left: usize,
    /// It goes at this time if there is no progress.
    pub(crate) until: Instant,
}

/// The sender of a message: this connection's other side, or this process.
pub(crate) type Sender = Option<Connection>;

/// What the endpoints of a process have in common.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) node: Node,
    pub(crate) endpoints: RefCell<Table<Rc<Ep>>>,
    /// What waits to leave.
    pub(crate) totals: Rc<Totals>,
}

/// What the functions get that run for the messages and events of an endpoint.
pub(crate) struct Here {
    pub(crate) common: Rc<Common>,
    pub(crate) ep: Rc<Ep>,
}

/// An endpoint.
#[derive(Debug)]
pub(crate) struct Ep {
    pub(crate) handle: Handle,
    pub(crate) bundle: Cell<Handle>,
    /// Of its bundle.
    pub(crate) bundle_has_work: RefCell<Rc<Cell<bool>>>,
    pub(crate) name: Name,
    pub(crate) endpoint: RefCell<Endpoint<Here>>,
    pub(crate) tag: Cell<Tag>,
    pub(crate) handlers: RefCell<Vec<Option<HandlerFn>>>,
    pub(crate) translations: RefCell<Vec<Option<Translation>>>,
    /// The memory that transfers may read and write.
    pub(crate) segment: RefCell<ForeignMemory>,
    pub(crate) local: Locals,
    pub(crate) lines: Lines,
    pub(crate) gets: RefCell<HashMap<u64, PendingGet>>,
    /// The names of those that connected to this endpoint.
    pub(crate) peers: RefCell<HashMap<Connection, Name>>,
    /// Where the entries were that lead to senders of messages.
    indices: RefCell<HashMap<Sender, usize>>,
    pub(crate) unmapped: RefCell<Vec<Unmapped>>,
    pub(crate) lost: RefCell<Vec<Lost>>,
    /// Set once the program has freed it.
    pub(crate) leave: Cell<Option<Leave>>,
    /// Requests that went back since. Their credits stay here.
    pub(crate) held: RefCell<Vec<OwnedMessage>>,
    next_get: Cell<u32>,
}

impl Ep {
    pub(crate) fn new(handle: Handle, bundle: Handle, name: Name, endpoint: Endpoint<Here>, totals: &Rc<Totals>) -> Ep {
        Ep {
            handle,
            bundle: Cell::new(bundle),
            bundle_has_work: RefCell::default(),
            name,
            endpoint: RefCell::new(endpoint),
            tag: Cell::new(Tag(Tag::NONE)),
            handlers: RefCell::new(vec![None; MAX_HANDLERS]),
            translations: RefCell::new(vec![None; TRANSLATIONS]),
            // SAFETY: there are no bytes in it.
            segment: RefCell::new(unsafe { ForeignMemory::new(ptr::null_mut(), 0) }),
            local: Locals::default(),
            lines: Lines::new(totals.clone()),
            gets: RefCell::default(),
            peers: RefCell::default(),
            indices: RefCell::default(),
            unmapped: RefCell::default(),
            lost: RefCell::default(),
            leave: Cell::new(None),
            held: RefCell::default(),
            next_get: Cell::new(0),
        }
    }

    pub(crate) fn translation(&self, index: usize) -> Option<Translation> {
        self.translations.borrow().get(index).copied().flatten()
    }

    /// Whether the table of translations has such an entry.
    pub(crate) fn check_index(&self, index: usize) -> Result<(), Code> {
        if index < self.translations.borrow().len() { Ok(()) } else { Err(Code::BadArg) }
    }

    /// A turn of its node, which runs the handlers of its messages. Returns how many it handled: none in one of its handlers.
    pub(crate) fn turn(self: &Rc<Ep>, common: &Rc<Common>) -> usize {
        let Ok(mut endpoint) = self.endpoint.try_borrow_mut() else { return 0 };
        endpoint.poll(&mut Here { common: common.clone(), ep: self.clone() })
    }

    /// The number of a new get.
    pub(crate) fn new_get(&self) -> u32 {
        self.next_get.set(self.next_get.get().wrapping_add(1));
        self.next_get.get()
    }

    /// Where the bytes of a transfer go, if they may.
    pub(crate) fn place_of(&self, is_get: bool, Extent { bytes, base, .. }: Extent) -> Option<ForeignPart> {
        let bytes = bytes as usize;
        if is_get {
            let gets = self.gets.borrow();
            gets.get(&base).filter(|get| get.memory.length() == bytes).and_then(|get| get.memory.part(0, bytes))
        } else {
            self.segment.borrow().part(usize::try_from(base).ok()?, bytes)
        }
    }

    /// The entry that leads over this connection.
    pub(crate) fn index_of(&self, connection: Connection) -> Option<usize> {
        self.find_entry(Some(connection), |entry| entry.connection == Some(connection))
    }

    /// The first entry that leads to the endpoint of this name, from which messages come by this connection.
    pub(crate) fn index_of_name(&self, connection: Sender, name: &Name) -> Option<usize> {
        self.find_entry(connection, |entry| entry.name == *name)
    }

    /// Such an entry; where it was for this sender before, if it is there still.
    fn find_entry(&self, sender: Sender, is_it: impl Fn(&Translation) -> bool) -> Option<usize> {
        let translations = self.translations.borrow();
        let is_at = |at: &usize| translations.get(*at).and_then(Option::as_ref).is_some_and(&is_it);
        let mut indices = self.indices.borrow_mut();
        let before = indices.get(&sender).copied().filter(is_at);
        before.or_else(|| {
            let found = (0..translations.len()).find(is_at)?;
            indices.insert(sender, found);
            Some(found)
        })
    }

    /// Whether its next poll has something to do that its node does not know.
    pub(crate) fn has_own_work(&self) -> bool {
        let is_over = self.lost.borrow().is_empty() && self.unmapped.borrow().is_empty();
        !self.local.is_empty() || !self.lines.is_empty() || !is_over
    }

    /// It has: its bundle's polls look.
    pub(crate) fn note_work(&self) {
        self.bundle_has_work.borrow().set(true);
    }

    /// A message of this process to itself.
    pub(crate) fn push_local(&self, local: Local) {
        self.local.push(local);
        self.note_work();
    }

    /// Whether the program has freed it: none of its handlers runs.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leave.get().is_some()
    }

    /// The connection is over.
    pub(crate) fn forget(&self, connection: Connection) {
        self.peers.borrow_mut().remove(&connection);
        self.indices.borrow_mut().remove(&Some(connection));
    }

    /// Whether a get that left by this connection has no answer.
    pub(crate) fn has_gets(&self, connection: Connection) -> bool {
        self.gets.borrow().values().any(|get| get.connection == Some(connection))
    }

    /// Every connection by which something of this endpoint may be on its way: replies to those that connected to it, and its requests.
    pub(crate) fn connections(&self) -> Vec<Connection> {
        let mut all: Vec<Connection> = self.peers.borrow().keys().copied().collect();
        all.extend(self.unmapped.borrow().iter().map(|unmapped| unmapped.connection));
        all.extend(self.translations.borrow().iter().flatten().filter_map(|entry| entry.connection));
        all
    }
}
