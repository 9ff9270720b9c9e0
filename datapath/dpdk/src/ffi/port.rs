//! A port: gives frames to its driver, and takes them back.

use std::ffi::{CStr, CString};
use std::io;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use am_ring::{Frame, Pool};
use am_wire::Address;

use super::port_lock::{PortLock, PortOutOfBand};
use super::{BURST, Chunks, RX_LEVEL, check_result};
use crate::abi::{self, Counts, Memory, Stats, Table, Wanted};

/// A port and its memory. Fields are dropped in this order: the port is closed first.
pub(crate) struct Port {
    probed: Probed,
    pub(crate) chunks: Arc<Chunks>,
    tx_completion: TxCompletion,
    /// Receive buffers that the driver should have. If sent frames are copied, the copies need some too.
    pub(crate) rx_level: usize,
    lock: Arc<PortLock>,
}

/// When a driver returns the frames that it has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TxCompletion {
    /// Before the send call returns, because the driver copies.
    Immediate,
    /// When it is asked to.
    OnRequest,
    /// In each send call, even of no frames.
    OnSend,
    /// Perhaps only when more frames are sent, which may be never. So such a driver gets copies.
    Delayed,
}

impl TxCompletion {
    fn of(driver: &str, knows_the_call: bool) -> TxCompletion {
        match driver {
            _ if knows_the_call => TxCompletion::OnRequest,
            "net_memif" | "net_vhost" | "net_af_packet" | "net_tap" | "net_pcap" | "net_null" => {
                TxCompletion::Immediate
            }
            "net_af_xdp" => TxCompletion::OnSend,
            _ => TxCompletion::Delayed,
        }
    }
}

impl Port {
    /// The port of a device, with this memory; not open yet.
    pub(crate) fn new(probed: Probed, chunks: Arc<Chunks>) -> Port {
        Port {
            probed,
            chunks,
            tx_completion: TxCompletion::Immediate,
            rx_level: RX_LEVEL,
            lock: Arc::new(PortLock::new()),
        }
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

    /// Open the port: from here on frames move.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn open(&mut self) -> io::Result<()> {
        // SAFETY: `probed` found the port, and `chunks` stay until it is closed.
        check_result(unsafe { (self.table().open)(&self.probed.port, self.pool()) })?;
        // SAFETY: the port is open.
        let knows_the_call = unsafe { (self.table().sent)(self.id(), self.pool(), false) } >= 0;
        self.tx_completion = TxCompletion::of(&self.probed.driver(), knows_the_call);
        self.rx_level = RX_LEVEL + if self.sends_copies() { self.probed.port.tx.into() } else { 0 };
        Ok(())
    }

    /// A way for heartbeats, with a frame of the pool for itself. The caller keeps `own` for as long as the way exists.
    pub(crate) fn out_of_band(&self, own: &mut Frame) -> PortOutOfBand {
        PortOutOfBand::new(self.lock.clone(), self.chunks.clone(), self.id(), own)
    }

    /// Entries of the receive queue.
    pub(crate) fn depth(&self) -> usize {
        self.probed.port.rx.into()
    }

    /// Whether sent frames are copied, because the driver might keep them for ever.
    #[inline]
    pub(crate) fn sends_copies(&self) -> bool {
        self.tx_completion == TxCompletion::Delayed
    }

    /// Have the device filter by an EtherType. False if it cannot.
    pub(crate) fn install_flow_rule(&mut self, ethertype: u16) -> bool {
        // SAFETY: the port is open.
        unsafe { (self.table().flow)(self.id(), ethertype) == 0 }
    }

    /// Have the device accept frames to one more link address, or if it cannot, all frames.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn accept_address(&mut self, address: Address) -> io::Result<()> {
        // SAFETY: the port is open, and the address lives until the call returns.
        check_result(unsafe { (self.table().accept)(self.id(), &address.0) }).map(drop)
    }

    /// No longer accept frames to an address that was added.
    pub(crate) fn refuse_address(&mut self, address: Address) {
        // SAFETY: as above. A driver that cannot remove it delivers frames that steering drops.
        let _ = unsafe { (self.table().refuse)(self.id(), &address.0) };
    }

    /// Receive buffers that the driver has left.
    #[inline]
    pub(crate) fn rx_buffers(&self) -> usize {
        self.chunks.counts().blanks.load(Relaxed) as usize
    }

    /// Whether sent frames wait to be taken back.
    #[inline]
    pub(crate) fn has_sent(&self) -> bool {
        self.chunks.counts().home.load(Relaxed) > 0
    }

    /// Take back the last frames sent, if their number is that of the returned frames. For a port whose driver had no earlier ones:
    /// then the returned frames are these.
    #[inline]
    pub(crate) fn take_sent_at_once(&mut self, count: usize) -> bool {
        let home = &self.chunks.counts().home;
        // A heartbeat returns none, because the driver has none.
        let are_here = home.load(Relaxed) as usize == count;
        if are_here {
            home.store(0, Relaxed);
        }
        are_here
    }

    /// Return sent frames to the pool. Returns the number of handles.
    #[inline]
    pub(crate) fn reap(&mut self, pool: &Pool) -> usize {
        self.chunks.reap(&self.lock, pool)
    }

    /// Take back the frames that drivers have sent. `len` of each is its number of handles.
    #[inline]
    pub(crate) fn take_sent(&mut self, each: &mut impl FnMut(abi::Frame)) {
        self.chunks.take_sent(&self.lock, each);
    }

    /// Give the driver up to `most` frames of the pool to receive into. Returns how many.
    #[inline]
    pub(crate) fn give_rx_buffers(&mut self, pool: &Pool, most: usize) -> usize {
        let mut indices = [0; BURST];
        let mut count = 0;
        for (place, frame) in indices[..most.min(BURST)].iter_mut().zip(std::iter::from_fn(|| pool.take())) {
            *place = frame.into_raw().index;
            count += 1;
        }
        // SAFETY: frames of this pool, on which no other handle exists.
        self.lock.with(|| unsafe { (self.table().give)(self.pool(), indices.as_ptr(), count as u32) });
        count
    }

    /// The driver has taken the buffers that it keeps. Return those beyond the level to the pool.
    pub(crate) fn return_surplus(&mut self, pool: &Pool) {
        while self.rx_buffers() > self.rx_level && self.take_back(pool, self.rx_buffers() - self.rx_level) > 0 {}
    }

    fn take_back(&mut self, pool: &Pool, most: usize) -> usize {
        let mut indices = [0; BURST];
        // SAFETY: the array has room for this many.
        let take = || unsafe { (self.table().take_back)(self.pool(), indices.as_mut_ptr(), most.min(BURST) as u32) };
        let count = self.lock.with(take);
        for &index in &indices[..count as usize] {
            // SAFETY: `give` made it raw, and it has no owner now.
            unsafe { self.chunks.drop_handles(pool, index, 1) };
        }
        count as usize
    }

    /// Receive frames. Returns how many. Invalid ones are added to `odd`.
    #[inline]
    pub(crate) fn receive(&mut self, arrived: &mut [abi::Frame; BURST], odd: &mut u32) -> usize {
        if !self.is_running() {
            return 0;
        }
        // SAFETY: the port is open, and `arrived` has room for this many.
        let receive =
            || unsafe { (self.table().receive)(self.id(), self.pool(), arrived.as_mut_ptr(), BURST as u16, odd) };
        self.lock.with(receive).into()
    }

    /// The handle on a received frame, or again that on a frame that was made raw.
    ///
    /// # Safety
    /// [`receive`](Self::receive) returned it, or no driver has it. It has not been adopted since.
    #[inline]
    pub(crate) unsafe fn adopt(&self, pool: &Pool, frame: abi::Frame) -> Frame {
        // SAFETY: it was made raw, by `give` or by the caller. Its bytes are in the chunk.
        unsafe { pool.from_raw_at(frame.index, frame.start, frame.len) }
    }

    /// Send frames. Returns how many from the first on were taken. The caller then makes these raw, unless the port
    /// [sends_copies](Self::sends_copies).
    #[inline]
    pub(crate) fn send(&mut self, frames: &[abi::Frame]) -> usize {
        if !self.is_running() {
            return 0;
        }
        if !self.sends_copies() {
            return self.send_shared(frames);
        }
        // SAFETY: the port is open. The caller holds the frames, and has read these numbers off them.
        let send =
            || unsafe { (self.table().send_copies)(self.id(), self.pool(), frames.as_ptr(), frames.len() as u16) };
        self.lock.with(send).into()
    }

    /// Send frames, never as copies.
    #[inline]
    pub(crate) fn send_shared(&mut self, frames: &[abi::Frame]) -> usize {
        // SAFETY: the port is open. The caller holds the frames, has read these numbers off them, and keeps each until
        // it has returned.
        let send = || unsafe { (self.table().send)(self.id(), self.pool(), frames.as_ptr(), frames.len() as u16) };
        self.lock.with(send).into()
    }

    /// The bytes of a frame that has no other user.
    ///
    /// # Safety
    /// The frame was received and not given back, or was made raw and is not with the driver. Its chunk has this many
    /// bytes from there on, and there is no other view of them.
    #[inline]
    pub(crate) unsafe fn bytes(&mut self, frame: abi::Frame) -> &mut [u8] {
        let Memory { base, stride, .. } = self.chunks.memory;
        // SAFETY: the bytes are in the chunk; the caller guarantees the rest.
        unsafe {
            let start = base.add(frame.index as usize * stride as usize + frame.start as usize);
            slice::from_raw_parts_mut(start, frame.len as usize)
        }
    }

    /// Give the driver frames to receive into, by number.
    ///
    /// # Safety
    /// The frames were made raw, and are not in use.
    #[inline]
    pub(crate) unsafe fn give_rx_indices(&mut self, indices: &[u32]) {
        // SAFETY: the caller's.
        self.lock.with(|| unsafe { (self.table().give)(self.pool(), indices.as_ptr(), indices.len() as u32) });
    }

    /// Have the driver return sent frames, if that takes a call.
    pub(crate) fn request_completions(&mut self) {
        let nudge = match self.tx_completion {
            TxCompletion::Immediate | TxCompletion::Delayed => return,
            TxCompletion::OnRequest => false,
            TxCompletion::OnSend => true,
        };
        // SAFETY: the port is open, and its driver supports this.
        self.lock.with(|| unsafe { (self.table().sent)(self.id(), self.pool(), nudge) });
    }

    /// Whether the port moves frames now.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.lock.state.load(Acquire) > 0
    }

    /// Restart a port whose driver connects to its peer only when it starts. Does nothing while a restart is under way.
    /// Does not wait.
    pub(crate) fn restart(&mut self) {
        if self.lock.with(|| self.lock.state.swap(0, Acquire)) == 0 {
            return;
        }
        // SAFETY: the port is open, and not used while the state says so. The state is dropped after `probed`, which closes
        // the port.
        if unsafe { (self.table().restart)(self.id(), &self.lock.state) } < 0 {
            self.lock.state.store(-1, Relaxed);
        }
    }

    /// Whether the link is up.
    ///
    /// # Errors
    /// The device is gone.
    pub(crate) fn is_link_up(&self) -> io::Result<bool> {
        if !self.is_running() {
            return Ok(false);
        }
        // SAFETY: the port is open.
        check_result(unsafe { (self.table().link)(self.id()) }).map(|up| up > 0)
    }

    /// The driver's counters; zeros if it has none.
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        // SAFETY: the port is open, and `stats` may be written.
        unsafe { (self.table().stats)(self.id(), &mut stats) };
        stats
    }

    /// Close the port, and return the frames that its driver had.
    pub(crate) fn close(self, pool: &Pool) {
        let Port { probed, chunks, lock, .. } = self;
        lock.close();
        drop(probed);
        chunks.reap(&lock, pool);
        for index in 0..chunks.frames {
            // SAFETY: no driver uses the pool any more.
            let handles = unsafe { (chunks.table.recall)(chunks.memory.pool, index) };
            // SAFETY: the handles were made raw for a driver that is gone.
            unsafe { chunks.drop_handles(pool, index, handles) };
        }
    }
}

/// A device that DPDK has, with a port that is not open yet.
pub(crate) struct Probed {
    table: &'static Table,
    pub(crate) port: abi::Port,
}

impl Probed {
    /// Have DPDK find or make the device.
    ///
    /// # Errors
    /// DPDK's; [`log`] has its messages.
    pub(crate) fn new(table: &'static Table, arguments: &str, name: &str, wanted: Wanted) -> io::Result<Probed> {
        let (arguments, name) = (CString::new(arguments)?, CString::new(name)?);
        let mut port = abi::Port::default();
        // SAFETY: DPDK has been started, since `table` exists; the pointers are strings, and memory to write to.
        check_result(unsafe { (table.probe)(arguments.as_ptr(), name.as_ptr(), wanted, &mut port) })?;
        Ok(Probed { table, port })
    }

    /// The driver's name.
    pub(crate) fn driver(&self) -> String {
        let bytes = self.port.driver.map(|byte| byte as u8);
        CStr::from_bytes_until_nul(&bytes).map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
    }
}

/// Closes the port, open or not, and removes the device.
impl Drop for Probed {
    fn drop(&mut self) {
        // SAFETY: `new` found the port, and it cannot be used after this.
        if let Err(error) = check_result(unsafe { (self.table.close)(self.port.id) }) {
            // With its feature `log` the macro has a module of this name, too.
            tracing::warn!(%error, complaints = crate::log::complaints(), "closing a port of DPDK's");
        }
    }
}
