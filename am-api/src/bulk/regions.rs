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
    /// None: for memory that only this side's gets write.
    pub const NONE: Rights = Rights { read: false, write: false };
    /// Peers may get from it.
    pub const READ: Rights = Rights { read: true, write: false };
    /// Peers may put into it.
    pub const WRITE: Rights = Rights { read: false, write: true };
    /// Both.
    pub const BOTH: Rights = Rights { read: true, write: true };
}

/// The id of a region. Its owner sends it to the peers that are to use the region. It is a small number, and no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId(pub u32);

/// Memory registered with an endpoint. Every peer that is connected to that endpoint may access it as its [`Rights`] allow; for some
/// peers only, register it with an endpoint whose tag only they know. Dropping it revokes access; gets in flight complete.
pub struct Region {
    id: RegionId,
    pub(super) memory: Memory,
    /// Peers may begin transfers while this handle exists. A transfer keeps the memory beyond that. The table has a weak handle,
    /// and so has each put that is not complete.
    open: Rc<()>,
}

/// Why [`Region::into_memory`] did not return the memory.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a transfer uses this region: poll until `on_transfer` has reported its end, `cancel` it, or close its connection"
)]
pub struct RegionInUse;

am_transport::debug_as_display!(RegionInUse);

impl Region {
    /// The id that peers need, to access the region.
    pub fn id(&self) -> RegionId {
        self.id
    }

    /// The region's bytes. Drop this borrow before polling, because segments that arrive meanwhile are refused.
    ///
    /// # Panics
    /// While the result of [`bytes_mut`](Self::bytes_mut) of this region exists.
    pub fn bytes(&self) -> Ref<'_, [u8]> {
        Ref::map(self.memory.borrow(), |bytes| &**bytes)
    }

    /// End the region, and return its memory. No transfer reaches it any more. If it was made from a `Vec`,
    /// [`into_vec`](slice::into_vec) converts the box back without a copy.
    ///
    /// # Errors
    /// A transfer of this side or of a peer uses the region. The error returns it unchanged.
    pub fn into_memory(self) -> Result<Box<[u8]>, (RegionInUse, Region)> {
        if Rc::weak_count(&self.open) > 1 {
            return Err((RegionInUse, self));
        }
        let Region { id, memory, open } = self;
        Rc::try_unwrap(memory).map(RefCell::into_inner).map_err(|memory| (RegionInUse, Region { id, memory, open }))
    }

    /// The region's bytes, to write. Drop this borrow before polling, because segments that arrive meanwhile are refused.
    ///
    /// # Panics
    /// While the region's bytes are borrowed.
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

/// The regions, by id. An id is used again only after all others were used.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    entries: BTreeMap<u32, Entry>,
    last: u32,
    /// When the table has this many entries, those of dropped regions are removed.
    full: usize,
}

/// The smallest value of [`Regions::full`].
const MIN_CLEANED: usize = 64;

impl Regions {
    /// Register memory for the peers of this endpoint.
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

    /// An endpoint was closed: remove its regions, because another endpoint may get its number.
    pub(super) fn forget(&mut self, endpoint: EndpointId) {
        self.entries.retain(|_, entry| entry.endpoint != endpoint);
    }

    /// A weak handle for a put that has begun. It keeps the region in use.
    pub(super) fn handle(&self, id: u32) -> Weak<()> {
        self.entries.get(&id).map(|entry| entry.open.clone()).unwrap_or_default()
    }

    /// The memory of a region, if a peer of this endpoint may access these bytes. `allowed` checks the rights.
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
