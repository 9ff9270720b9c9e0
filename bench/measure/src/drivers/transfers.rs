//! The bulk transfers of one side of `am`: puts into a region of the other side.

use std::rc::Rc;

use am_api::{Connection, Endpoint, Region, RegionId, Rights, Transfer, TransferKind};

use crate::content::{COMPARED_SHARE, Content};
use crate::error::Error;

/// Bytes in flight. Some transfers are sent while others are acknowledged.
const MAX_BYTES_IN_FLIGHT: usize = 512 << 10;

/// Places of transfers that are echoed one at a time. The other side's transfer may arrive before ours is acknowledged.
const ECHO_PLACES: usize = 2;

/// Successive transfers to one place start at different bytes of the same content, so old bytes do not pass for new
/// ones. After this many they start again. The steps are whole cache lines.
const SHIFTS: u64 = 8;
const SHIFT: u64 = 64;

/// One side's transfers, and the state of their handler.
#[derive(Default)]
pub(super) struct Transfers {
    /// The other side's region and the measurement that it is for, once announced.
    region: Option<(RegionId, u64)>,
    /// Measurements with transfers so far; both sides count the same ones.
    measurement: u64,
    /// Places without a transfer in flight, of the region and of the user's memory.
    free: Vec<usize>,
    /// Transfers begun to each place; empty if data messages are no transfers.
    pub(super) begun: Vec<u64>,
    /// Whether the first transfer to each place is shorter. Otherwise transfers that begin together would end together,
    /// and then none would be in flight.
    is_staggered: bool,
    size: usize,
    /// The content of transfers, for this side to compare.
    content: Content,
    /// The user's bytes of each place.
    pub(super) memory: Vec<Rc<Vec<u8>>>,
    /// Where the other side's transfers go, and whether it knows.
    takes: Option<Region>,
    is_announced: bool,
    /// Transfers that arrived at each place, and in all.
    arrived: Vec<u64>,
    seen: u64,
    /// Transfers that arrived and are not echoed yet.
    pub(super) pending_echoes: usize,
    failed: Option<String>,
}

/// A range of a place's memory.
struct Part(Rc<Vec<u8>>, (usize, usize));

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.0[self.1.0..self.1.1]
    }
}

impl Transfers {
    /// Data messages are no transfers.
    pub(super) fn none(&mut self) {
        *self = Transfers { region: self.region, measurement: self.measurement, ..Transfers::default() };
    }

    /// Expect transfers of this size, this many at once.
    fn expect(&mut self, size: usize, places: usize) {
        // Free the old memory first: it may be large.
        self.none();
        (self.size, self.measurement) = (size, self.measurement + 1);
        (self.begun, self.arrived, self.free) = (vec![0; places], vec![0; places], (0..places).collect());
        self.content = Content::of(size + (SHIFT * (SHIFTS - 1)) as usize);
    }

    /// The other side announces where its transfers go.
    pub(super) fn on_region(&mut self, [region, measurement]: [u64; 2]) {
        self.region = Some((RegionId(region as u32), measurement));
    }

    /// The region for the present measurement, if it was announced.
    fn region(&self) -> Option<RegionId> {
        self.region.filter(|(_, measurement)| *measurement == self.measurement).map(|(region, _)| region)
    }

    /// The range of the content that the nth transfer to a place has.
    fn part(&self, place: usize, nth: u64) -> (usize, usize) {
        let places = self.begun.len();
        let is_short = nth == 0 && self.is_staggered;
        let length = if is_short { (self.size * (place + 1) / places).max(1) } else { self.size };
        let start = (nth % SHIFTS * SHIFT) as usize;
        (start, start + length)
    }

    /// Complete a transfer. For one that arrived, returns whether it is correct.
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

    /// Whether a transfer has its length, and one byte in [`COMPARED_SHARE`] its value. Each time another piece is compared.
    fn is_right(&mut self, offset: usize, length: usize) -> bool {
        let place = offset / self.size.max(1);
        let (Some(&nth), Some(region)) = (self.arrived.get(place), &self.takes) else { return false };
        let (start, end) = self.part(place, nth);
        let piece = length.div_ceil(COMPARED_SHARE as usize);
        let from = ((self.seen % COMPARED_SHARE) as usize * piece).min(length);
        let to = (from + piece).min(length);
        let is_it =
            self.content.bytes().get(start + from..start + to) == region.bytes().get(offset + from..offset + to);
        self.arrived[place] += 1;
        self.seen += 1;
        is_it && length == end - start && offset == place * self.size
    }

    pub(super) fn is_busy(&self) -> bool {
        self.free.len() < self.begun.len()
    }

    /// One way, from the near side. Each place has its own memory, which was written before: neither a cache that holds
    /// everything nor page faults are measured.
    pub(super) fn one_way<S>(&mut self, endpoint: &Endpoint<S>, size: usize, is_near: bool) {
        self.expect(size, (MAX_BYTES_IN_FLIGHT / size.max(1)).clamp(2, 8));
        self.is_staggered = true;
        if is_near {
            self.send();
            self.content = Content::default();
        } else {
            self.take(endpoint);
        }
    }

    /// One at a time. Each is answered by one of the same size.
    pub(super) fn echoed<S>(&mut self, endpoint: &Endpoint<S>, size: usize) {
        self.expect(size, ECHO_PLACES);
        self.send();
        self.take(endpoint);
    }

    fn send(&mut self) {
        self.memory = self.begun.iter().map(|_| Rc::new(self.content.bytes().to_vec())).collect();
    }

    fn take<S>(&mut self, endpoint: &Endpoint<S>) {
        self.takes = Some(endpoint.register(vec![u8::MAX; self.begun.len() * self.size], Rights::WRITE));
    }

    /// Announce our region and its measurement by `tell`, if it has not been announced.
    #[inline]
    pub(super) fn announce(&mut self, tell: impl FnOnce(&[u64]) -> Result<Option<()>, Error>) -> Result<(), Error> {
        if let Some(region) = self.takes.as_ref().filter(|_| !self.is_announced) {
            self.is_announced = tell(&[u64::from(region.id().0), self.measurement])?.is_some();
        }
        Ok(())
    }

    /// Begin as many transfers as there are places for, at most `count`.
    pub(super) fn begin<S>(&mut self, endpoint: &Endpoint<S>, to: Connection, count: usize) -> Result<usize, Error> {
        if let Some(why) = self.failed.take() {
            return Err(Error::Lost(why));
        }
        let Some(region) = self.region().filter(|_| !self.memory.is_empty()) else { return Ok(0) };
        let mut begun = 0;
        while begun < count
            && let Some(place) = self.free.pop()
        {
            let data = Part(Rc::clone(&self.memory[place]), self.part(place, self.begun[place]));
            let put = endpoint.put(to, region, (place * self.size) as u64, data);
            put.map_err(|error| Error::Lost(error.to_string()))?;
            self.begun[place] += 1;
            begun += 1;
        }
        Ok(begun)
    }
}
