//! The send path. The transport pushes frames into a queue of 256, and `flush` gives them to the driver. When the queue
//! is full, a frame is refused. While the link is down, queued frames are lost and counted.

use std::time::{Duration, Instant};

use am_ring::{Frame, Pool, RawFrame};
use am_wire::Buffer;
use am_wire::frame::ETHERNET_HEADER;

use crate::abi;
use crate::ffi::{BURST, Port};
use crate::open::Opened;

/// The most frames that wait for the doorbell.
const MAX_QUEUED: usize = 4 * BURST;

/// The interval at which a lost peer is looked for.
const SEARCH_INTERVAL: Duration = Duration::from_millis(100);

/// Queued frames, and counters.
pub(crate) struct Tx {
    /// As the driver gets them. Each is a raw handle.
    queued: Vec<abi::Frame>,
    /// Handles that the driver holds.
    in_flight: usize,
    /// The most that it may hold: the shim has room for this many.
    max_in_flight: usize,
    max_frame: usize,
    sent: u64,
    bytes: u64,
    /// Whether the driver must be restarted to find a lost peer.
    reconnects_by_restart: bool,
    /// When it was last restarted for that.
    last_search: Instant,
    full: u64,
    copied: u64,
    invalid: u64,
    down: u64,
}

impl Tx {
    pub(crate) fn new(opened: &Opened) -> Tx {
        Tx {
            queued: Vec::with_capacity(MAX_QUEUED),
            in_flight: 0,
            max_in_flight: opened.pool.layout().frames,
            max_frame: opened.max_frame,
            sent: 0,
            bytes: 0,
            reconnects_by_restart: opened.reconnects_by_restart,
            // The driver has just looked, and waits for the answer.
            last_search: Instant::now(),
            full: 0,
            copied: 0,
            invalid: 0,
            down: 0,
        }
    }

    /// Queue a frame, if the queue has room.
    #[inline]
    pub(crate) fn send(&mut self, opened: &Opened, frame: &Frame) -> bool {
        if self.queued.len() == MAX_QUEUED || self.in_flight + self.queued.len() >= self.max_in_flight {
            self.full += 1;
            return false;
        }
        if !(ETHERNET_HEADER..=self.max_frame).contains(&frame.bytes().len()) {
            self.invalid += 1;
            return true;
        }
        let own = if opened.pool.owns(frame) { Some(frame.share()) } else { self.copy(&opened.pool, frame) };
        let Some(own) = own else { return false };
        let RawFrame { index, start, len, .. } = own.into_raw();
        self.queued.push(abi::Frame { index, start, len });
        true
    }

    /// A copy of a frame of another pool.
    #[cold]
    fn copy(&mut self, pool: &Pool, foreign: &Frame) -> Option<Frame> {
        let copy = pool.copy(foreign.bytes())?;
        self.copied += 1;
        Some(copy)
    }

    /// Give all queued frames to the driver, and take back sent ones.
    #[inline]
    pub(crate) fn flush(&mut self, opened: &mut Opened) {
        if self.queued.is_empty() && self.in_flight == 0 {
            return;
        }
        let Opened { port, pool, .. } = opened;
        let waiting = self.queued.len();
        self.submit(port, pool);
        if waiting == 0 {
            port.request_completions();
        } else if self.queued.len() == waiting {
            self.drop_if_down(opened);
        }
        let Opened { port, pool, .. } = opened;
        if port.has_sent() {
            self.in_flight -= port.reap(pool);
        }
    }

    #[inline]
    fn submit(&mut self, port: &mut Port, pool: &Pool) {
        let mut taken = 0;
        for burst in self.queued.chunks(BURST) {
            let sent = port.send(burst);
            taken += sent;
            if sent < burst.len() {
                break;
            }
        }
        self.sent += taken as u64;
        self.bytes += self.queued[..taken].iter().map(|frame| u64::from(frame.len)).sum::<u64>();
        // A driver that copies has returned them already, if it has none of earlier bursts: these very frames.
        if port.sends_copies() || (self.in_flight == 0 && port.take_sent_at_once(taken)) {
            self.release(port, pool, taken);
        } else {
            // The driver has the handles now, or has returned some of them: `reap` turns them into frames again.
            self.queued.drain(..taken);
            self.in_flight += taken;
        }
    }

    /// Drop the handles on the first `count` queued frames.
    fn release(&mut self, port: &Port, pool: &Pool, count: usize) {
        for frame in self.queued.drain(..count) {
            // SAFETY: `send` made it raw, and no driver has it.
            drop(unsafe { port.adopt(pool, frame) });
        }
    }

    /// The driver takes no frames. If the link is down it never will. Then the frames are lost, as on an unplugged
    /// cable.
    #[cold]
    fn drop_if_down(&mut self, opened: &mut Opened) {
        let Opened { port, .. } = opened;
        port.request_completions();
        if port.is_link_up().unwrap_or(false) {
            return;
        }
        self.down += self.queued.len() as u64;
        self.clear(opened);
        self.search_peer(&mut opened.port);
    }

    /// Discard the queued frames.
    pub(crate) fn clear(&mut self, opened: &Opened) {
        self.release(&opened.port, &opened.pool, self.queued.len());
    }

    /// Whether anything was ever sent.
    pub(crate) fn has_sent(&self) -> bool {
        self.sent > 0
    }

    /// The link is down: look for the peer again, now and then.
    pub(crate) fn search_peer(&mut self, port: &mut Port) {
        let now = Instant::now();
        if self.reconnects_by_restart && now - self.last_search > SEARCH_INTERVAL {
            self.last_search = now;
            port.restart();
        }
    }

    pub(crate) fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("dpdk_sent", self.sent);
        each("dpdk_sent_bytes", self.bytes);
        each("dpdk_full", self.full);
        each("dpdk_copied", self.copied);
        each("dpdk_lost_invalid", self.invalid);
        each("dpdk_lost_link_down", self.down);
    }
}
