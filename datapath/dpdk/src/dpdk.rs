//! The transport.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use am_ring::Frame;
use am_transport::{Caps, Command, Notice, OutOfBand, PeerAddressError, Steering, Transport};
use am_wire::Address;

use crate::open::{self, Opened};
use crate::rx::Rx;
use crate::tx::Tx;
use crate::{DpdkOpenError, DpdkOptions};

const LINK_DOWN: &str = "the link is down: the other end is not connected";

/// One port of DPDK, with one receive and one transmit queue.
pub struct Dpdk {
    // Waiting frames are dropped, and so return to the pool, before the port is closed.
    rx: Rx,
    tx: Tx,
    opened: Opened,
    /// The memory of heartbeats. It is in use until the port is closed.
    _heartbeat: Option<Frame>,
    steering: Steering,
    caps: Caps,
    /// Why nothing arrives or leaves.
    broken: Option<Cow<'static, str>>,
}

/// Open a device.
///
/// # Errors
/// See [`DpdkOpenError`]: it says what is wrong and what to do.
pub fn open(options: &DpdkOptions) -> Result<Dpdk, DpdkOpenError> {
    let opened = open::open(options)?;
    let mut heartbeat = opened.pool.take();
    let out_of_band = heartbeat.as_mut().map(|own| Arc::new(opened.port.out_of_band(own)) as Arc<dyn OutOfBand>);
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
        wakes_by_level: false,
        out_of_band,
    };
    Ok(Dpdk {
        rx: Rx::default(),
        tx: Tx::new(&opened),
        _heartbeat: heartbeat,
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
        self.opened.port.is_link_up().unwrap_or(false)
    }

    fn accept_address(&mut self, address: Address) -> Result<(), PeerAddressError> {
        self.opened.port.accept_address(address).or_else(|error| {
            self.steering.control(Command::RemoveAddress(address), &self.caps)?;
            Err(PeerAddressError::not_served(&self.caps, address, format!("the driver says {error}")))
        })
    }

    fn look_at_link(&mut self) {
        if matches!(self.broken, Some(Cow::Owned(_))) {
            return;
        }
        self.broken = match self.opened.port.is_link_up() {
            Ok(true) => None,
            Ok(false) => {
                // A node that knows that the link is down sends nothing, and only sending looks for the other end.
                self.tx.search_peer(&mut self.opened.port);
                Some(LINK_DOWN.into())
            }
            Err(why) => Some(format!("{} is gone: {why}", self.caps.name).into()),
        };
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
    fn send(&mut self, _to: Address, frame: &Frame) -> bool {
        self.tx.send(&self.opened, frame)
    }

    #[inline]
    fn flush(&mut self) {
        self.tx.flush(&mut self.opened);
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        if matches!(command, Command::JoinGroup { .. }) {
            // The port's filter takes no group address.
            return command.without_peers(&self.caps);
        }
        let is_known = |address| self.steering.is_served(address);
        let is_new = matches!(command, Command::AddAddress(address) if !is_known(address));
        let is_old = matches!(command, Command::RemoveAddress(address) if is_known(address));
        self.steering.control(command, &self.caps)?;
        match command {
            Command::AddAddress(address) if is_new => self.accept_address(address),
            Command::RemoveAddress(address) if is_old => {
                self.opened.port.refuse_address(address);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.steering.notices(each);
        self.look_at_link();
        self.broken.iter().for_each(|why| each(Notice::LinkError(why)));
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let stats = self.opened.port.stats();
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
        self.tx.clear(&self.opened);
        if self.opened.is_memif && self.tx.has_sent() && self.is_up() {
            thread::sleep(LINGER);
        }
    }
}

impl fmt::Debug for Dpdk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dpdk").field("caps", &self.caps).finish_non_exhaustive()
    }
}
