//! A member as a transport.

use std::collections::BTreeMap;
use std::mem::take;
use std::time::{Duration, Instant};

use am_ring::Frame;
use am_ring::lane::LaneCounters;
use am_transport::{Caps, Command, Notice, PeerAddressError, PeerInfo, Steering, Transport};
use am_wire::Address;

use crate::join::Membership;
use crate::link::{Counters, Shm};
use crate::peer::{CHECK_INTERVAL, Peer, STALL_TIMEOUT, address};
use crate::receive::{ALL, LOOKS_TO_CHECK};
use crate::waker::Waker;
use crate::{ShmOpenError, ShmOptions, map, process};

/// Join a link, or create it.
///
/// # Errors
/// See [`ShmOpenError`]. A failed attempt leaves nothing behind.
pub fn open(options: &ShmOptions) -> Result<Shm, ShmOpenError> {
    options.check()?;
    let own = Membership::join(options)?;
    let waker = Waker::new(own.place.dir_fd(), &own.place.fifo_name(own.member), options.mode)
        .map_err(|why| own.place.fifo_error(why))?;
    let address = address(own.member, own.generation);
    let caps = Caps {
        name: format!("shm:{}", options.name),
        mode: own.pages.mode(own.mapping.base().addr().get()),
        address,
        max_frame: own.geometry.frame,
        reliable: true,
        ordered: true,
        hears_all: true,
        pool: map::pool(options.frames, own.geometry.frame)?,
        wake: Some(vec![waker.wake_fd()]),
        wakes_by_level: false,
        out_of_band: None,
    };
    let numbers = own.geometry.numbers();
    own.announce();
    let mut shm = Shm {
        caps,
        steering: Steering::new(options.ethertype, address),
        waker,
        peers: (0..numbers).map(|member| Peer::new(&own, member)).collect(),
        membership: own,
        lend_from: options.lend_from.unwrap_or_else(process::lend_from),
        present: 0,
        added_addresses: BTreeMap::new(),
        turn: ALL,
        seen_changes: 0,
        unpublished: 0,
        looks_left: LOOKS_TO_CHECK,
        departed: Vec::with_capacity(4 * numbers),
        alive: Vec::with_capacity(numbers),
        strangers_wanted: false,
        stall_timeout: STALL_TIMEOUT,
        next_check: Instant::now(),
        segment_error: None,
        counters: Counters::default(),
        lane_counters: LaneCounters::default(),
    };
    shm.refresh_members();
    Ok(shm)
}

impl Transport for Shm {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        self.receive_frames(budget, each)
    }

    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        self.send_frame(to, frame)
    }

    #[inline]
    fn flush(&mut self) {
        if self.unpublished == 0 {
            return self.refresh_if_changed();
        }
        self.publish();
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        match command {
            Command::BeforeSleep => self.before_sleep(),
            Command::Leave(longest) => {
                self.stall_timeout = longest;
                self.peers.iter_mut().for_each(Peer::forget_full);
            }
            Command::AskAlive(Address::BROADCAST) => self.strangers_wanted = true,
            Command::AskAlive(peer) if self.is_alive(peer) => self.alive.push(peer),
            _ => (),
        }
        self.steering.control(command, &self.caps)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.check_link();
        self.departed.drain(..).for_each(|address| each(Notice::PeerGone(address)));
        self.alive.drain(..).for_each(|address| each(Notice::PeerAlive(address)));
        if take(&mut self.strangers_wanted) {
            let present = self.peers.iter().filter(|peer| peer.is_present());
            present.for_each(|peer| each(Notice::StrangerAlive(address(peer.member, peer.generation))));
        }
        self.steering.notices(each);
        self.segment_error.into_iter().for_each(|why| each(Notice::LinkError(why)));
    }

    fn peer(&self, at: Address) -> PeerInfo {
        PeerInfo { is_known: self.peers.iter().any(|peer| peer.has_address(at)), ..PeerInfo::default() }
    }

    fn read_memory(&mut self, of: Address, at: u64, into: &mut [u8]) -> bool {
        let Shm { peers, membership, .. } = self;
        let found = peers.iter_mut().find(|peer| peer.has_address(of));
        found.is_some_and(|peer| peer.read_memory(membership, at, into))
    }

    fn prefers_reading(&mut self, of: Address, bytes: u64) -> bool {
        bytes >= self.lend_from && self.read_memory(of, 0, &mut [])
    }

    /// Each receiver that makes room wakes this member. A dead one does not.
    fn room_within(&self) -> Duration {
        CHECK_INTERVAL
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.counters.each(each);
        each("shm_no_frame", self.lane_counters.no_frame);
        each("shm_nonsense", self.lane_counters.nonsense);
        self.steering.counters(each);
    }
}

impl Drop for Shm {
    /// Publish the sent frames. Dropping `membership` then leaves the link. A forked child leaves nothing.
    fn drop(&mut self) {
        if self.membership.owner.is_here() {
            self.publish();
        }
    }
}
