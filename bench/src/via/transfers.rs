//! The bulk transfers of one side of `am`: puts into a region of the far side.

use std::rc::Rc;

use am_api::{Endpoint, Region, RegionId, Remote, Rights, Transfer, TransferKind};

use crate::error::Error;

/// Bytes under way: some transfers go while others are told of.
const UNDER_WAY: usize = 512 << 10;

/// Transfers under way at once.
fn at_once(size: usize) -> usize {
    (UNDER_WAY / size.max(1)).clamp(2, 8)
}

/// What the handler of transfers works on.
#[derive(Default)]
pub(super) struct Told {
    /// The far side's region, once it has said so.
    pub(super) region: Option<RegionId>,
    /// Places in it, and the user's memory for them, that no transfer is under way to.
    free: Vec<usize>,
    /// Places that have had no transfer yet.
    unused: usize,
    /// Bytes of a transfer.
    size: usize,
    /// One was refused or lost.
    failed: Option<String>,
}

/// What this side has for transfers.
pub(super) enum Transfers {
    /// The near side: the bytes of each place, which the user would have.
    Puts(Vec<Rc<Vec<u8>>>),
    /// The far side: where they go, and whether the near side was told.
    Takes(Region, bool),
}

/// The first bytes of a place's memory.
struct Part(Rc<Vec<u8>>, usize);

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

impl Told {
    /// Transfers of this size come next.
    fn expect(&mut self, size: usize) {
        *self = Told { free: (0..at_once(size)).collect(), unused: at_once(size), size, ..Told::default() };
    }

    /// Bytes of the next transfer of this place. The first ones differ: of transfers that begin together and take
    /// turns all would end together, and then none would be under way.
    fn next_size(&mut self, place: usize) -> usize {
        let all = at_once(self.size);
        let is_first = self.unused > place;
        self.unused = self.unused.min(place);
        if is_first { (self.size * (place + 1) / all).max(1) } else { self.size }
    }

    /// A transfer is over; returns what has arrived with it.
    pub(super) fn over(&mut self, transfer: &Transfer<'_>) -> Option<u64> {
        match (transfer.result, transfer.kind) {
            (Err(error), _) => self.failed = Some(error.to_string()),
            (Ok(()), TransferKind::Put) => self.free.push(transfer.offset as usize / self.size.max(1)),
            (Ok(()), TransferKind::Deposited) => return Some(transfer.length),
            _ => {}
        }
        None
    }

    /// Whether any is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.free.len() < at_once(self.size)
    }
}

impl Transfers {
    /// The near side's. Each place has memory of its own, all of which was written once: what is
    /// measured is neither a cache that holds everything nor the system that finds pages.
    pub(super) fn puts(told: &mut Told, size: usize) -> Transfers {
        told.expect(size);
        Transfers::Puts((0..at_once(size)).map(|place| Rc::new(vec![place as u8 + 1; size])).collect())
    }

    /// The far side's.
    pub(super) fn takes<S>(endpoint: &Endpoint<S>, size: usize) -> Transfers {
        Transfers::Takes(endpoint.register(vec![u8::MAX; at_once(size) * size], Rights::WRITE), false)
    }

    /// Begin as many as there are places for, at most `count`.
    pub(super) fn begin<S>(
        &self,
        endpoint: &Endpoint<S>,
        told: &mut Told,
        to: Remote,
        count: usize,
    ) -> Result<usize, Error> {
        if let Some(why) = told.failed.take() {
            return Err(Error::Lost(why));
        }
        let (Transfers::Puts(memory), Some(region)) = (self, told.region) else { return Ok(0) };
        let mut begun = 0;
        while begun < count
            && let Some(place) = told.free.pop()
        {
            let data = Part(Rc::clone(&memory[place]), told.next_size(place));
            let put = endpoint.put(to, region, (place * told.size) as u64, data);
            put.map_err(|error| Error::Lost(error.to_string()))?;
            begun += 1;
        }
        Ok(begun)
    }
}
