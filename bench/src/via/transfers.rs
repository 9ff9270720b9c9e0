//! The bulk transfers of one side of `am`: puts into a region of the other side.

use std::rc::Rc;

use am_api::{Connection, Endpoint, Region, RegionId, Rights, Transfer, TransferKind};

use crate::content::{Content, SHARE};
use crate::error::Error;

/// Bytes under way: some transfers go while others are told of.
const UNDER_WAY: usize = 512 << 10;

/// Places of transfers that go to and fro one at a time: the other side's may have come before ours is told to be whole.
const TO_AND_FRO: usize = 2;

/// Transfers to one place begin at another byte of the same content each time, so many times and then again, so that
/// what was there before is not what is to come. The steps are whole lines of the cache.
const SHIFTS: u64 = 8;
const SHIFT: u64 = 64;

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
    /// Transfers begun to each place.
    pub(super) begun: Vec<u64>,
    /// The first transfer to each place is shorter. Transfers that begin together and take turns
    /// would all end together, and then none would be under way.
    is_staggered: bool,
    /// Bytes of a transfer.
    size: usize,
    /// What they hold, for this side to compare,
    content: Content,
    /// and where the other side's go.
    takes: Option<Region>,
    /// Transfers that arrived at each place, and in all.
    came: Vec<u64>,
    seen: u64,
    /// Arrived, and yet to be sent back.
    pub(super) owed: usize,
    /// One was refused or lost.
    failed: Option<String>,
}

/// What this side has for transfers.
#[derive(Default)]
pub(super) struct Transfers {
    /// The bytes of each place, which the user would have.
    pub(super) memory: Vec<Rc<Vec<u8>>>,
    /// The other side was told where its transfers go.
    has_told: bool,
}

/// Bytes of a place's memory, from here to there.
struct Part(Rc<Vec<u8>>, (usize, usize));

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.0[self.1.0..self.1.1]
    }
}

impl Told {
    /// Transfers of this size come next, this many at once.
    fn expect(&mut self, size: usize, places: usize) {
        let (region, measurement) = (self.region, self.measurement + 1);
        // What was there goes first: it may be large.
        *self = Told { region, measurement, size, ..Told::default() };
        (self.begun, self.came, self.free) = (vec![0; places], vec![0; places], (0..places).collect());
        self.content = Content::of(size + (SHIFT * (SHIFTS - 1)) as usize);
    }

    /// The other side says where its transfers go.
    pub(super) fn on_region(&mut self, [region, measurement]: [u64; 2]) {
        self.region = Some((RegionId(region as u32), measurement));
    }

    /// The region for what is measured now; what was said of another is over, or yet to come.
    fn region(&self) -> Option<RegionId> {
        self.region.filter(|(_, measurement)| *measurement == self.measurement).map(|(region, _)| region)
    }

    /// From where to where of the content the nth transfer to a place goes.
    fn part(&self, place: usize, nth: u64) -> (usize, usize) {
        let places = self.begun.len();
        let is_short = nth == 0 && self.is_staggered;
        let length = if is_short { (self.size * (place + 1) / places).max(1) } else { self.size };
        let start = (nth % SHIFTS * SHIFT) as usize;
        (start, start + length)
    }

    /// A transfer is over; of one that arrived returns whether it is what was sent.
    pub(super) fn over<S>(&mut self, transfer: &Transfer<'_, S>) -> Option<bool> {
        match (transfer.result, transfer.kind) {
            (Err(error), _) => self.failed = Some(error.to_string()),
            (Ok(()), TransferKind::Put) => self.free.push(transfer.offset as usize / self.size.max(1)),
            (Ok(()), TransferKind::Deposited) => {
                return Some(self.is_right(transfer.offset as usize, transfer.length as usize));
            }
            _ => {}
        }
        None
    }

    /// Whether a transfer has its length, and one byte in [`SHARE`] its value: a piece of it that
    /// is another one each time.
    fn is_right(&mut self, offset: usize, length: usize) -> bool {
        let place = offset / self.size.max(1);
        let (Some(&nth), Some(region)) = (self.came.get(place), &self.takes) else { return false };
        let (start, end) = self.part(place, nth);
        let piece = length.div_ceil(SHARE as usize);
        let from = ((self.seen % SHARE) as usize * piece).min(length);
        let to = (from + piece).min(length);
        let is_it =
            self.content.bytes().get(start + from..start + to) == region.bytes().get(offset + from..offset + to);
        self.came[place] += 1;
        self.seen += 1;
        is_it && length == end - start && offset == place * self.size
    }

    /// Whether any is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.free.len() < self.begun.len()
    }
}

impl Transfers {
    /// One way, from the near side. Each place has memory of its own, all of which was written once: what is
    /// measured is neither a cache that holds everything nor the system that finds pages.
    pub(super) fn one_way<S>(endpoint: &Endpoint<S>, told: &mut Told, size: usize, is_near: bool) -> Transfers {
        told.expect(size, at_once(size));
        told.is_staggered = true;
        if !is_near {
            return Transfers::default().taking(endpoint, told);
        }
        let transfers = Transfers::sending(told);
        told.content = Content::default();
        transfers
    }

    /// One at a time, and each is answered by one of the same size.
    pub(super) fn to_and_fro<S>(endpoint: &Endpoint<S>, told: &mut Told, size: usize) -> Transfers {
        told.expect(size, TO_AND_FRO);
        Transfers::sending(told).taking(endpoint, told)
    }

    fn sending(told: &Told) -> Transfers {
        let memory = told.begun.iter().map(|_| Rc::new(told.content.bytes().to_vec())).collect();
        Transfers { memory, has_told: false }
    }

    fn taking<S>(self, endpoint: &Endpoint<S>, told: &mut Told) -> Transfers {
        told.takes = Some(endpoint.register(vec![u8::MAX; told.begun.len() * told.size], Rights::WRITE));
        self
    }

    /// What the other side is yet to be told: our region, and what it is for.
    pub(super) fn untold(&self, told: &Told) -> Option<[u64; 2]> {
        let region = told.takes.as_ref().filter(|_| !self.has_told)?;
        Some([u64::from(region.id().0), told.measurement])
    }

    /// It was told.
    pub(super) fn was_told(&mut self) {
        self.has_told = true;
    }

    /// Begin as many as there are places for, at most `count`.
    pub(super) fn begin<S>(
        &self,
        endpoint: &Endpoint<S>,
        told: &mut Told,
        to: Connection,
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
            let data = Part(Rc::clone(&self.memory[place]), told.part(place, told.begun[place]));
            let put = endpoint.put(to, region, (place * told.size) as u64, data);
            put.map_err(|error| Error::Lost(error.to_string()))?;
            told.begun[place] += 1;
            begun += 1;
        }
        Ok(begun)
    }
}
