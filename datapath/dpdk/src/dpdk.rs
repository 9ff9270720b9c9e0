//! The transport.

use std::fmt;
use std::thread;
use std::time::Duration;

use am_ring::Frame;
use am_transport::{Caps, Steering, Transport};
use am_wire::bounce::Back;
use am_wire::{Address, Flow};

use crate::open::{self, Opened};
use crate::rx::Rx;
use crate::tx::Tx;
use crate::{OpenError, Options};

const DOWN: &str = "the link is down: nobody is at its other end";

/// One port of DPDK, with one receive and one transmit queue.
pub struct Dpdk {
    // Waiting frames are dropped, and so return to the pool, before the port is closed.
    rx: Rx,
    tx: Tx,
    opened: Opened,
    steering: Steering,
    caps: Caps,
    broken: Option<String>,
}

/// Open a device.
///
/// # Errors
/// See [`OpenError`]: it says what is wrong and what to do.
pub fn open(options: &Options) -> Result<Dpdk, OpenError> {
    let opened = open::open(options)?;
    let caps = Caps {
        name: format!("dpdk:{}", options.arguments),
        mode: opened.mode.clone(),
        address: opened.address,
        max_frame: opened.max_frame,
        reliable: false,
        // One queue and one ring keep the order of the wire.
        ordered: true,
        hears_all: true,
        pool: opened.pool.clone(),
        wake: None,
    };
    Ok(Dpdk {
        rx: Rx::default(),
        tx: Tx::new(&opened),
        steering: Steering::gated(options.ethertype, opened.address),
        opened,
        caps,
        broken: None,
    })
}

impl Dpdk {
    /// Whether the link is up. With memif and vhost: whether the other end is connected. Frames that are sent while it
    /// is down are lost.
    pub fn is_up(&self) -> bool {
        self.opened.ask().link().unwrap_or(false)
    }
}

impl Transport for Dpdk {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let Dpdk { rx, opened, steering, .. } = self;
        rx.receive(opened, steering, budget, each)
    }

    #[inline]
    fn send(&mut self, _to: Address, frame: Frame) -> Result<(), Frame> {
        self.tx.send(&self.opened, frame)
    }

    #[inline]
    fn flush(&mut self) {
        self.tx.flush(&mut self.opened);
    }

    fn steer(&mut self, flow: Flow, open: bool) {
        self.steering.set(flow, open);
    }

    fn way_back(&mut self, _: Flow, back: &Back) {
        self.steering.way_back(back);
    }

    fn stray(&mut self) -> Option<Flow> {
        self.steering.stray()
    }

    fn broken(&mut self) -> Option<&str> {
        if self.broken.is_none() {
            match self.opened.ask().link() {
                Ok(true) => (),
                Ok(false) => {
                    // Who knows that it is down sends nothing, upon which the other end would be looked for.
                    self.tx.search(self.opened.port().0);
                    return Some(DOWN);
                }
                Err(why) => self.broken = Some(format!("{} is gone: {why}", self.caps.name)),
            }
        }
        self.broken.as_deref()
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let stats = self.opened.ask().stats();
        each("dpdk_link_down", u64::from(!self.is_up()));
        self.rx.counters(each);
        each("dpdk_rx_missed", stats.missed);
        each("dpdk_rx_errors", stats.rx_errors);
        each("dpdk_rx_no_memory", stats.no_memory);
        self.tx.counters(each);
        each("dpdk_tx_errors", stats.tx_errors);
        self.steering.counters(each);
    }
}

/// How long a close waits for the other end of a memif to fetch the last frames: the ring goes with the port. It always
/// waits this long, because memif (DPDK 22.11) does not tell when frames were fetched. It has neither
/// `rte_eth_tx_descriptor_status` nor `rte_eth_tx_done_cleanup`, and counts a frame as sent once it is copied into the
/// ring.
const LINGER: Duration = Duration::from_millis(50);

/// Returns undelivered frames to the pool as well.
impl Drop for Dpdk {
    fn drop(&mut self) {
        self.rx.clear(&mut self.opened);
        if self.opened.fetched && self.tx.has_sent() && self.is_up() {
            thread::sleep(LINGER);
        }
    }
}

impl fmt::Debug for Dpdk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dpdk").field("caps", &self.caps).finish_non_exhaustive()
    }
}
