//! Memory that peers may write to, or read from.

use std::cell::{Ref, RefCell, RefMut};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::{Rc, Weak};

use am_proto::EndpointId;
use am_wire::bulk::Segment;

use super::TransferError;

pub(super) type Memory = Rc<RefCell<Box<[u8]>>>;

/// What peers may do with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Rights {
    /// Get from it.
    pub read: bool,
    /// Put into it.
    pub write: bool,
}

impl Rights {
    /// Nothing: a place for what this side gets.
    pub const NONE: Rights = Rights { read: false, write: false };
    /// Peers may get from it.
    pub const READ: Rights = Rights { read: true, write: false };
    /// Peers may put into it.
    pub const WRITE: Rights = Rights { read: false, write: true };
    /// Both.
    pub const BOTH: Rights = Rights { read: true, write: true };
}

/// What a region is called in messages: its owner tells it to its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId(pub u32);

/// Memory registered with an endpoint. Peers of that endpoint reach it as far
/// as its [`Rights`] go. Dropping it revokes access; gets in flight complete.
pub struct Region {
    id: RegionId,
    pub(super) memory: Memory,
    /// As long as it is there peers may begin transfers; the memory outlives it where one is under way. The table has a weak
    /// handle, and so has each put of which something is missing.
    open: Rc<()>,
}

/// Why a region's memory is not given back.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a transfer uses this region: poll until `on_transfer` has told of its end, `cancel` it, or close its connection"
)]
pub struct RegionInUse;

am_transport::debug_as_display!(RegionInUse);

impl Region {
    /// What to tell the peers.
    pub fn id(&self) -> RegionId {
        self.id
    }

    /// Its bytes. Let go of them before polling: what arrives while they are
    /// borrowed is refused.
    ///
    /// # Panics
    /// While [`bytes_mut`](Self::bytes_mut) of the same region is held.
    pub fn bytes(&self) -> Ref<'_, [u8]> {
        Ref::map(self.memory.borrow(), |bytes| &**bytes)
    }

    /// Ends the region: the memory that it was made of comes back, and no transfer reaches it any more. A `Vec` was turned into a box for it, and
    /// [`into_vec`](slice::into_vec) turns it back for nothing.
    ///
    /// # Errors
    /// A transfer, ours or a peer's, reads or writes it: the region comes back as it was.
    pub fn into_memory(self) -> Result<Box<[u8]>, (RegionInUse, Region)> {
        if Rc::weak_count(&self.open) > 1 {
            return Err((RegionInUse, self));
        }
        let Region { id, memory, open } = self;
        Rc::try_unwrap(memory).map(RefCell::into_inner).map_err(|memory| (RegionInUse, Region { id, memory, open }))
    }

    /// The same, to write.
    ///
    /// # Panics
    /// While its bytes are borrowed otherwise.
    pub fn bytes_mut(&self) -> RefMut<'_, [u8]> {
        RefMut::map(self.memory.borrow_mut(), |bytes| &mut **bytes)
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("id", &self.id).finish_non_exhaustive()
    }
}

/// An entry of the table.
#[derive(Debug)]
struct Entry {
    endpoint: EndpointId,
    rights: Rights,
    memory: Weak<RefCell<Box<[u8]>>>,
    open: Weak<()>,
}

/// By id. One that is gone is not given out again before all others were.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    entries: BTreeMap<u32, Entry>,
    last: u32,
    /// At this number of entries those of dropped regions are taken out.
    full: usize,
}

/// With fewer entries than this, those of dropped regions are not removed.
const MIN_CLEANED: usize = 64;

impl Regions {
    /// Memory for the peers of this endpoint.
    pub(crate) fn register(&mut self, endpoint: EndpointId, memory: Box<[u8]>, rights: Rights) -> Region {
        let (memory, open) = (Rc::new(RefCell::new(memory)), Rc::new(()));
        if self.entries.len() >= self.full {
            self.entries.retain(|_, entry| entry.open.strong_count() > 0);
            self.full = (2 * self.entries.len()).max(MIN_CLEANED);
        }
        self.last = self.last.wrapping_add(1);
        while self.last == 0 || self.entries.contains_key(&self.last) {
            self.last = self.last.wrapping_add(1);
        }
        let entry = Entry { endpoint, rights, memory: Rc::downgrade(&memory), open: Rc::downgrade(&open) };
        self.entries.insert(self.last, entry);
        Region { id: RegionId(self.last), memory, open }
    }

    /// An endpoint is closed: another may get its number, but not its regions.
    pub(super) fn forget(&mut self, endpoint: EndpointId) {
        self.entries.retain(|_, entry| entry.endpoint != endpoint);
    }

    /// A put into it has begun.
    pub(super) fn handle(&self, id: u32) -> Weak<()> {
        self.entries.get(&id).map(|entry| entry.open.clone()).unwrap_or_default()
    }

    /// The memory, where a peer of this endpoint may use so much of it so.
    pub(super) fn find(
        &self,
        endpoint: EndpointId,
        id: u32,
        allowed: impl Fn(Rights) -> bool,
        start: u64,
        length: u64,
    ) -> Result<Memory, TransferError> {
        let is_it = |entry: &&Entry| entry.endpoint == endpoint && entry.open.strong_count() > 0;
        let entry = self.entries.get(&id).filter(is_it).ok_or(TransferError::NoRegion)?;
        let memory = entry.memory.upgrade().ok_or(TransferError::NoRegion)?;
        if !allowed(entry.rights) {
            return Err(TransferError::Denied);
        }
        let size = memory.try_borrow().map_err(|_| TransferError::Borrowed)?.len() as u64;
        match start.checked_add(length) {
            Some(end) if end <= size.min(Segment::MAX_OFFSET) => Ok(memory),
            _ => Err(TransferError::OutOfBounds),
        }
    }
}
