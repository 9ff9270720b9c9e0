//! An endpoint's tables: handlers, translations, segment, tag; and what waits in it.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};

use am_api::{Connection, Endpoint, Token};

use crate::header::{Extent, Header, Kind};
use crate::invoke::HandlerFn;
use crate::name::Name;
use crate::tables::Handle;

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
    /// Made by the first message.
    pub(crate) connection: Option<Connection>,
    /// The other side has this endpoint's name.
    pub(crate) is_greeted: bool,
}

/// A message of this process to itself.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub(crate) kind: Kind,
    pub(crate) words: [u64; 4],
    pub(crate) payload: Vec<u8>,
    pub(crate) is_reply: bool,
    pub(crate) from: Handle,
    /// The request's translation, at the endpoint that sent it.
    pub(crate) index: usize,
}

/// Where a queued message goes.
#[derive(Debug)]
pub(crate) enum To {
    /// A request on this connection.
    Connection(Connection),
    /// The reply that this token permits.
    Token(Token),
}

/// A message that a handler sent, and that waits for a poll.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) to: To,
    pub(crate) kind: Kind,
    pub(crate) words: [u64; 4],
    pub(crate) payload: Vec<u8>,
}

/// A transfer of which something has arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arriving {
    pub(crate) bytes: u64,
    /// Its end, if that arrived before some fragments. Only a reply's does.
    pub(crate) end: Option<Header>,
}

/// Where a get's bytes go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingGet {
    pub(crate) to: *mut u8,
    pub(crate) bytes: u32,
}

/// The memory that transfers may read and write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) start: *mut u8,
    pub(crate) length: usize,
}

impl Segment {
    /// The address of these bytes, if all of them are in it.
    pub(crate) fn range(&self, base: u64, bytes: u64) -> Option<*mut u8> {
        let (base, bytes) = (usize::try_from(base).ok()?, usize::try_from(bytes).ok()?);
        (base.checked_add(bytes)? <= self.length).then(|| self.start.wrapping_add(base))
    }
}

/// Which transfer: of this connection's other side, or of this process.
pub(crate) type Sender = Option<Connection>;

/// An endpoint.
#[derive(Debug)]
pub(crate) struct Ep {
    pub(crate) handle: Handle,
    pub(crate) bundle: Cell<Handle>,
    pub(crate) name: Name,
    pub(crate) endpoint: RefCell<Endpoint<()>>,
    pub(crate) tag: Cell<Tag>,
    pub(crate) handlers: RefCell<Vec<Option<HandlerFn>>>,
    pub(crate) translations: RefCell<Vec<Option<Translation>>>,
    pub(crate) segment: Cell<Segment>,
    pub(crate) local: RefCell<VecDeque<Local>>,
    pub(crate) queued: RefCell<VecDeque<Queued>>,
    pub(crate) arriving: RefCell<HashMap<(Sender, u32, bool), Arriving>>,
    pub(crate) gets: RefCell<HashMap<u64, PendingGet>>,
    /// The names of those that connected to this endpoint.
    pub(crate) peers: RefCell<HashMap<Connection, Name>>,
    pub(crate) next_transfer: Cell<u32>,
}

impl Ep {
    pub(crate) fn new(handle: Handle, bundle: Handle, name: Name, endpoint: Endpoint<()>) -> Ep {
        Ep {
            handle,
            bundle: Cell::new(bundle),
            name,
            endpoint: RefCell::new(endpoint),
            tag: Cell::new(Tag(Tag::NONE)),
            handlers: RefCell::new(vec![None; MAX_HANDLERS]),
            translations: RefCell::new(vec![None; TRANSLATIONS]),
            segment: Cell::new(Segment { start: std::ptr::null_mut(), length: 0 }),
            local: RefCell::default(),
            queued: RefCell::default(),
            arriving: RefCell::default(),
            gets: RefCell::default(),
            peers: RefCell::default(),
            next_transfer: Cell::new(0),
        }
    }

    pub(crate) fn translation(&self, index: usize) -> Option<Translation> {
        self.translations.borrow().get(index).copied().flatten()
    }

    /// The number of a new transfer or get.
    pub(crate) fn new_transfer(&self) -> u32 {
        self.next_transfer.set(self.next_transfer.get().wrapping_add(1));
        self.next_transfer.get()
    }

    /// Where the bytes of a transfer go, if they may.
    pub(crate) fn place_of(&self, is_get: bool, Extent { bytes, base, .. }: Extent) -> Option<*mut u8> {
        if is_get {
            let gets = self.gets.borrow();
            gets.get(&base).filter(|get| get.bytes == bytes).map(|get| get.to)
        } else {
            self.segment.get().range(base, bytes.into())
        }
    }

    /// The entry that leads over this connection.
    pub(crate) fn index_of(&self, connection: Connection) -> Option<usize> {
        let translations = self.translations.borrow();
        translations.iter().position(|entry| entry.is_some_and(|entry| entry.connection == Some(connection)))
    }
}
