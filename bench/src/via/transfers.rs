//! The bulk transfers of one side of `am`: puts into a region of the other side.

use std::rc::Rc;

use am_api::{Endpoint, Region, RegionId, Remote, Rights, Transfer, TransferKind};

use crate::error::Error;

/// Bytes under way: some transfers go while others are told of.
const UNDER_WAY: usize = 512 << 10;

/// Places of transfers that go to and fro one at a time: the other side's may have come before ours is told to be whole.
const TO_AND_FRO: usize = 2;

/// Transfers under way at once.
fn at_once(size: usize) -> usize {
    (UNDER_WAY / size.max(1)).clamp(2, 8)
}

/// What the handler of transfers works on.
#[derive(Default)]
pub(super) struct Told {
    /// The other side's region and the measurement it is for, once it has said so.
    region: Option<(RegionId, u64)>,
    /// Measurements with transfers so far: both sides count the same ones.
    measurement: u64,
    /// Places in it, and the user's memory for them, that no transfer is under way to.
    free: Vec<usize>,
    /// Places that there are.
    places: usize,
    /// Places that have had no transfer yet.
    unused: usize,
    /// Bytes of a transfer.
    size: usize,
    /// Arrived, and yet to be sent back.
    pub(super) owed: usize,
    /// One was refused or lost.
    failed: Option<String>,
}

/// What this side has for transfers.
#[derive(Default)]
pub(super) struct Transfers {
    /// The bytes of each place, which the user would have.
    memory: Vec<Rc<Vec<u8>>>,
    /// Where the other side's go, and whether it was told.
    takes: Option<(Region, bool)>,
}

/// The first bytes of a place's memory.
struct Part(Rc<Vec<u8>>, usize);

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

impl Told {
    /// Transfers of this size come next, this many at once.
    fn expect(&mut self, size: usize, places: usize) {
        let (region, measurement) = (self.region, self.measurement + 1);
        *self = Told { free: (0..places).collect(), places, size, region, measurement, ..Told::default() };
    }

    /// The other side says where its transfers go.
    pub(super) fn on_region(&mut self, [region, measurement]: [u64; 2]) {
        self.region = Some((RegionId(region as u32), measurement));
    }

    /// The region for what is measured now; what was said of another is over, or yet to come.
    fn region(&self) -> Option<RegionId> {
        self.region.filter(|(_, measurement)| *measurement == self.measurement).map(|(region, _)| region)
    }

    /// Bytes of the next transfer of this place. The first ones differ: of transfers that begin together and take
    /// turns all would end together, and then none would be under way.
    fn next_size(&mut self, place: usize) -> usize {
        let is_first = self.unused > place;
        self.unused = self.unused.min(place);
        if is_first { (self.size * (place + 1) / self.places).max(1) } else { self.size }
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
        self.free.len() < self.places
    }
}

fn memory(told: &Told) -> Vec<Rc<Vec<u8>>> {
    (0..told.places).map(|place| Rc::new(vec![place as u8 + 1; told.size])).collect()
}

fn region<S>(endpoint: &Endpoint<S>, told: &Told) -> Region {
    endpoint.register(vec![u8::MAX; told.places * told.size], Rights::WRITE)
}

impl Transfers {
    /// One way, from the near side. Each place has memory of its own, all of which was written once: what is
    /// measured is neither a cache that holds everything nor the system that finds pages.
    pub(super) fn one_way<S>(endpoint: &Endpoint<S>, told: &mut Told, size: usize, is_near: bool) -> Transfers {
        told.expect(size, at_once(size));
        told.unused = told.places;
        if is_near {
            Transfers { memory: memory(told), takes: None }
        } else {
            Transfers { memory: Vec::new(), takes: Some((region(endpoint, told), false)) }
        }
    }

    /// One at a time, and each is answered by one of the same size.
    pub(super) fn to_and_fro<S>(endpoint: &Endpoint<S>, told: &mut Told, size: usize) -> Transfers {
        told.expect(size, TO_AND_FRO);
        Transfers { memory: memory(told), takes: Some((region(endpoint, told), false)) }
    }

    /// What the other side is yet to be told: our region, and what it is for.
    pub(super) fn untold(&self, told: &Told) -> Option<[u64; 2]> {
        match &self.takes {
            Some((region, false)) => Some([u64::from(region.id().0), told.measurement]),
            _ => None,
        }
    }

    /// It was told.
    pub(super) fn was_told(&mut self) {
        if let Some((_, told)) = &mut self.takes {
            *told = true;
        }
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
        let Some(region) = told.region().filter(|_| !self.memory.is_empty()) else { return Ok(0) };
        let mut begun = 0;
        while begun < count
            && let Some(place) = told.free.pop()
        {
            let data = Part(Rc::clone(&self.memory[place]), told.next_size(place));
            let put = endpoint.put(to, region, (place * told.size) as u64, data);
            put.map_err(|error| Error::Lost(error.to_string()))?;
            begun += 1;
        }
        Ok(begun)
    }
}
