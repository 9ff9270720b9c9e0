//! A port: frames over the border, and back.

use std::io;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use am_ring::{Frame, Pool};

use super::{BURST, Chunks, LEVEL, Probed, check};
use crate::abi::{self, Counts, Memory, Stats, Table};

/// A port and its memory. Fields are dropped in this order: closed first.
pub(crate) struct Port {
    probed: Probed,
    chunks: Arc<Chunks>,
    gives_back: GivesBack,
    level: usize,
    /// Whether it moves frames: 0 while it is being started again, below 0 when that failed.
    runs: Box<AtomicI32>,
}

/// How a driver gives back what it has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GivesBack {
    /// Before its call returns, because it copies.
    AtOnce,
    /// When it is asked.
    Asked,
    /// When it is to send, be it nothing.
    Nudged,
    /// Perhaps only when more is sent, which may be never. So what it gets are copies.
    Late,
}

impl GivesBack {
    fn of(driver: &str, knows_the_call: bool) -> GivesBack {
        match driver {
            _ if knows_the_call => GivesBack::Asked,
            "net_memif" | "net_vhost" | "net_af_packet" | "net_tap" | "net_pcap" | "net_null" => GivesBack::AtOnce,
            "net_af_xdp" => GivesBack::Nudged,
            _ => GivesBack::Late,
        }
    }
}

impl Port {
    /// The port of a device over this memory, not open yet.
    pub(crate) fn new(probed: Probed, chunks: Arc<Chunks>) -> Port {
        Port { probed, chunks, gives_back: GivesBack::AtOnce, level: LEVEL, runs: Box::new(AtomicI32::new(1)) }
    }

    fn table(&self) -> &'static Table {
        self.probed.table
    }

    fn id(&self) -> u16 {
        self.probed.port.id
    }

    fn pool(&self) -> *mut Counts {
        self.chunks.memory.pool
    }

    /// Open it: from here on frames move.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn open(&mut self) -> io::Result<()> {
        // SAFETY: `probed` found it, and `chunks` stay until it is closed.
        check(unsafe { (self.table().open)(&self.probed.port, self.pool()) })?;
        // SAFETY: it is open.
        let knows_the_call = unsafe { (self.table().sent)(self.id(), false) } >= 0;
        self.gives_back = GivesBack::of(&self.probed.driver(), knows_the_call);
        self.level = LEVEL + if self.copies() { self.probed.port.tx.into() } else { 0 };
        Ok(())
    }

    /// Entries of its receive queue.
    pub(crate) fn depth(&self) -> usize {
        self.probed.port.rx.into()
    }

    /// Whether what is sent is copied, since the driver might keep it for ever.
    #[inline]
    pub(crate) fn copies(&self) -> bool {
        self.gives_back == GivesBack::Late
    }

    /// Have the device itself look for an EtherType. Whether it does.
    pub(crate) fn flow(&mut self, ethertype: u16) -> bool {
        // SAFETY: it is open.
        unsafe { (self.table().flow)(self.id(), ethertype) == 0 }
    }

    /// Frames that a driver may receive into.
    #[inline]
    pub(crate) fn blanks(&self) -> usize {
        self.chunks.counts().blanks.load(Relaxed) as usize
    }

    /// Whether there are frames that were sent.
    #[inline]
    pub(crate) fn has_sent(&self) -> bool {
        self.chunks.counts().home.load(Relaxed) > 0
    }

    /// Frames to receive into, as many as `most` and the pool has; returns how many.
    #[inline]
    pub(crate) fn give(&mut self, pool: &Pool, most: usize) -> usize {
        let mut indices = [0; BURST];
        let mut count = 0;
        for (place, frame) in indices[..most.min(BURST)].iter_mut().zip(std::iter::from_fn(|| pool.take())) {
            *place = frame.into_raw().index;
            count += 1;
        }
        // SAFETY: frames of this pool that nobody else has a handle on.
        unsafe { (self.table().give)(self.pool(), indices.as_ptr(), count as u32) };
        count
    }

    /// Blanks that there should be; where what is sent is copied into blanks, for that too.
    #[inline]
    pub(crate) fn level(&self) -> usize {
        self.level
    }

    /// The driver has taken what it keeps: what is left beyond the level goes home.
    pub(crate) fn settle(&mut self, pool: &Pool) {
        while self.blanks() > self.level && self.take_back(pool, self.blanks() - self.level) > 0 {}
    }

    fn take_back(&mut self, pool: &Pool, most: usize) -> usize {
        let mut indices = [0; BURST];
        // SAFETY: there is room for so many.
        let count = unsafe { (self.table().take_back)(self.pool(), indices.as_mut_ptr(), most.min(BURST) as u32) };
        for &index in &indices[..count as usize] {
            // SAFETY: `give` made it a number, and it is nobody's now.
            unsafe { self.chunks.drop_handles(pool, index, 1) };
        }
        count as usize
    }

    /// Frames that have arrived; returns how many. What made no sense is added to `odd`.
    #[inline]
    pub(crate) fn receive(&mut self, arrived: &mut [abi::Frame; BURST], odd: &mut u32) -> usize {
        if !self.runs() {
            return 0;
        }
        // SAFETY: it is open, and there is room for so many.
        let count = unsafe { (self.table().receive)(self.id(), self.pool(), arrived.as_mut_ptr(), BURST as u16, odd) };
        count.into()
    }

    /// The handle on a frame that arrived.
    ///
    /// # Safety
    /// [`receive`](Self::receive) gave it, and it has not been adopted since.
    #[inline]
    pub(crate) unsafe fn adopt(&self, pool: &Pool, frame: abi::Frame) -> Frame {
        // SAFETY: `give` made it a number, the driver has handed it over, and its bytes are in the chunk.
        unsafe { pool.adopt(frame.index, frame.start, frame.len) }
    }

    /// Send these; returns how many from the first on were taken, which the
    /// caller then makes raw, unless the port [copies](Self::copies).
    #[inline]
    pub(crate) fn send(&mut self, frames: &[abi::Frame]) -> usize {
        if !self.runs() {
            return 0;
        }
        if !self.copies() {
            return self.send_these(frames);
        }
        // SAFETY: it is open; the frames are held by the caller, who has read these numbers off them.
        unsafe { (self.table().send_copies)(self.id(), self.pool(), frames.as_ptr(), frames.len() as u16) }.into()
    }

    /// The same, never with copies.
    #[inline]
    pub(crate) fn send_these(&mut self, frames: &[abi::Frame]) -> usize {
        // SAFETY: it is open; the frames are held by the caller, who has read
        // these numbers off them, and lets go of none until it is home.
        unsafe { (self.table().send)(self.id(), self.pool(), frames.as_ptr(), frames.len() as u16) }.into()
    }

    /// Frames that were sent, as numbers.
    #[inline]
    pub(crate) fn sent(&mut self, each: &mut impl FnMut(abi::Frame)) {
        self.chunks.sent(each);
    }

    /// The bytes of a frame that is nobody's else.
    ///
    /// # Safety
    /// It has arrived and was not given back, or was made raw and is not with the driver; its chunk has so many bytes
    /// from there on, and there is no other view of it.
    #[inline]
    pub(crate) unsafe fn bytes(&mut self, frame: abi::Frame) -> &mut [u8] {
        let Memory { base, stride, .. } = self.chunks.memory;
        // SAFETY: so many bytes, in the chunk, whoever has put them there; the rest is the caller's.
        unsafe {
            let start = base.add(frame.index as usize * stride as usize + frame.start as usize);
            slice::from_raw_parts_mut(start, frame.len as usize)
        }
    }

    /// Frames to receive into, by number.
    ///
    /// # Safety
    /// They were made raw, and nobody uses them.
    #[inline]
    pub(crate) unsafe fn give_these(&mut self, indices: &[u32]) {
        // SAFETY: the caller's.
        unsafe { (self.table().give)(self.pool(), indices.as_ptr(), indices.len() as u32) };
    }

    /// Have the driver give back what it has sent, where that takes a call.
    pub(crate) fn ask_sent(&mut self) {
        let nudge = match self.gives_back {
            GivesBack::AtOnce | GivesBack::Late => return,
            GivesBack::Asked => false,
            GivesBack::Nudged => true,
        };
        // SAFETY: it is open, and the driver is one that this fits.
        unsafe { (self.table().sent)(self.id(), nudge) };
    }

    /// Frames that were sent, home into the pool; returns how many handles.
    #[inline]
    pub(crate) fn reap(&mut self, pool: &Pool) -> usize {
        self.chunks.reap(pool)
    }

    /// Whether it moves frames now.
    #[inline]
    pub(crate) fn runs(&self) -> bool {
        self.runs.load(Acquire) > 0
    }

    /// A port whose driver looks for its peer only when it starts, and has lost it: have it start again, as often as
    /// this is asked and not while it is at it. Does not wait.
    pub(crate) fn look_again(&mut self) {
        if self.runs.swap(0, Acquire) == 0 {
            return;
        }
        // SAFETY: it is open, and not used while `runs` says so; `runs` is dropped after `probed`, which closes it.
        if unsafe { (self.table().restart)(self.id(), &*self.runs) } < 0 {
            self.runs.store(-1, Relaxed);
        }
    }

    /// Whether its link is up.
    ///
    /// # Errors
    /// The device is gone.
    pub(crate) fn link(&self) -> io::Result<bool> {
        if !self.runs() {
            return Ok(false);
        }
        // SAFETY: it is open.
        check(unsafe { (self.table().link)(self.id()) }).map(|up| up > 0)
    }

    /// What its driver counts; nothing where it does not.
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        // SAFETY: it is open; a place to write to.
        unsafe { (self.table().stats)(self.id(), &mut stats) };
        stats
    }

    /// Close it, and bring home what drivers had.
    pub(crate) fn close(self, pool: &Pool) {
        let Port { probed, chunks, runs, .. } = self;
        drop(probed);
        drop(runs);
        chunks.reap(pool);
        for index in 0..chunks.frames {
            // SAFETY: no driver uses the pool any more.
            let handles = unsafe { (chunks.table.recall)(chunks.memory.pool, index) };
            // SAFETY: made raw for a driver, which is gone.
            unsafe { chunks.drop_handles(pool, index, handles) };
        }
    }
}
