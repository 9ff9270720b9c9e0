//! **Shared memory between processes of one host.** All processes that open the same `shm:NAME` are on one link, as on
//! a small switch. They may join and leave at any time.
//!
//! ```text
//!   process A                    the segment: a file in /dev/shm                      process B
//!  ┌───────────────┐  copy  ┌─────────┬──────────────────────────────────┐  copy  ┌───────────────┐
//!  │ Frame of A's ─┼──in───▶│ lane A▶B│ length│frame  length│frame  0    │───out─▶│ Frame of B's  │
//!  │ own pool      │        ├─────────┼──────────────────────────────────┤        │ own pool,     │
//!  │ steering   ◀──┼──out───│ lane B▶A│ length│frame  0                  │◀──in───┼─ steering     │
//!  └───────────────┘        ├─────────┴──────────────────────────────────┤        └───────────────┘
//!     ▲                     │ header: version, geometry, members         │                    ▲
//!     │                     └────────────────────────────────────────────┘                    │
//!     └── FIFO ◀── a sender writes a byte if the member's `asleep` is set ──▶ FIFO ───────────┘
//! ```
//!
//! Each member has a lane to each other member, and is its only writer ([`am_ring::lane`]). So a receiver polls the
//! cache line in which the next frame will be written, and a small frame is that one line. Bytes that other processes
//! can change are not interpreted: frames are copied out first ([decision
//! 30](../../../docs/decisions/0030-copy-shared-memory-before-reading.md)).
//!
//! The kernel shows which members live. Each member holds a lock on the file, and the kernel releases it when the
//! process ends, however that happens, and whatever children it has (`locks.rs`, `holder.rs`). What it sent before is still received: its number, lanes and FIFO are another's
//! when the other members have read the lanes. There are twice as many numbers as members, so that one member that reads nothing keeps
//! none out. If no number is left all the same, the next process waits, and after 15 s takes the number that was left first.
//! The last member that leaves removes the file. If all members were killed, the next process that opens the name
//! makes a new file.
//!
//! # Limits
//!
//! - A frame for a member that died is lost (`shm_lost_dead`). A live member that takes nothing from its full lane for
//!   250 ms counts as stalled until it takes something. Meanwhile further frames for it are lost (`shm_lost_hung`); those in the lane
//!   wait.
//! - A process that may open the file may write anything into it, at any time. So it can destroy and forge frames. But
//!   no member reads or writes outside the file, panics or hangs because of it. Such a process may also truncate the
//!   file, and then the kernel kills members that touch the missing part (SIGBUS). So give access only to processes
//!   that may kill yours anyway. The default is this user alone.
//!
//! # Read first
//!
//! [`ShmOptions`]; then `send.rs` and `receive.rs`, the data path; then `join.rs`, how a process joins and leaves, and
//! `waker.rs`, how it sleeps.
//!
//! ```
//! use am_shm::ShmOptions;
//! use am_transport::Transport;
//!
//! let options = ShmOptions { frames: 64, ..ShmOptions::new(format!("example-{}", std::process::id())) };
//! let (mut one, mut other) = (am_shm::open(&options)?, am_shm::open(&options)?);
//! assert_ne!(one.caps().address, other.caps().address);
//! let frame = one.caps().pool.copy(&[0; 60]).unwrap();
//! assert!(one.send(other.caps().address, &frame));
//! one.flush();
//! // Zeros are not a frame of ours, so steering does not admit them.
//! assert_eq!(other.receive(64, &mut |_| ()), 0);
//! let mut foreign = 0;
//! other.counters(&mut |name, value| if name == "steer_pass_foreign" { foreign = value });
//! assert_eq!(foreign, 1);
//! # Ok::<(), am_shm::ShmOpenError>(())
//! ```
#![allow(unsafe_code, reason = "memory that processes share")]

mod errors;
mod header;
mod holder;
mod join;
mod locks;
mod map;
mod options;
mod peer;
mod receive;
mod segment_path;
mod send;
mod waker;

use std::collections::BTreeMap;
use std::mem::take;
use std::sync::atomic::Ordering::Acquire;
use std::time::{Duration, Instant};

use am_ring::Frame;
use am_transport::{Caps, Command, Notice, PeerAddressError, Steering, Transport};
use am_wire::Address;

pub use errors::ShmOpenError;
use join::Membership;
pub use map::shared_lines;
pub use options::{ShmOptions, ShmOptionsError};
use peer::{Peer, STALL_TIMEOUT, address};
use waker::Waker;

/// The interval at which this member asks the kernel whether each other one lives. A question takes a microsecond or less.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// One member of a link.
#[derive(Debug)]
pub struct Shm {
    caps: Caps,
    steering: Steering,
    membership: Membership,
    waker: Waker,
    /// The other members, by number. Our own entry is not used.
    peers: Box<[Peer]>,
    /// The numbers of the other members, and of those that have left but whose frames are not all received.
    present: Vec<usize>,
    /// Addresses of nodes behind other members, and the member and its generation. Learned from control frames.
    added_addresses: BTreeMap<Address, (usize, u32)>,
    /// The index of the lane that is read first.
    first_lane: usize,
    /// The header's count of changes when the list of members was last read.
    seen_changes: u32,
    /// A bit for each member whose lane has frames that are not published yet.
    unpublished: u64,
    /// Empty receives in a row.
    empty_receives: u32,
    /// The addresses of members that have left or died, until they are reported to the node.
    departed: Vec<Address>,
    /// Silent peers whose process lives, until they are reported to the node.
    alive: Vec<Address>,
    /// The node looks for a peer: report all members.
    strangers_wanted: bool,
    /// How long a full lane is waited for.
    stall_timeout: Duration,
    last_check: Instant,
    counters: Counters,
}

/// Each counter has its field's name with `shm_` in front.
#[derive(Debug, Default)]
struct Counters {
    sent: u64,
    received: u64,
    full: u64,
    lost_too_long: u64,
    lost_alone: u64,
    lost_dead: u64,
    lost_hung: u64,
    no_frame: u64,
    nonsense: u64,
    restarts: u64,
    rings: u64,
    no_bell: u64,
    sleeps: u64,
}

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
        mode: own.pages.mode(own.mapped.address()),
        address,
        max_frame: own.geometry.frame,
        reliable: true,
        ordered: true,
        hears_all: true,
        pool: map::pool(options.frames, own.geometry.frame)?,
        wake: Some(vec![waker.wake_fd()]),
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
        present: Vec::with_capacity(numbers),
        added_addresses: BTreeMap::new(),
        first_lane: 0,
        seen_changes: 0,
        unpublished: 0,
        empty_receives: 0,
        departed: Vec::with_capacity(4 * numbers),
        alive: Vec::with_capacity(numbers),
        strangers_wanted: false,
        stall_timeout: STALL_TIMEOUT,
        last_check: Instant::now(),
        counters: Counters::default(),
    };
    shm.refresh_members();
    Ok(shm)
}

impl Shm {
    /// Read the list of members if it has changed.
    #[inline]
    fn refresh_if_changed(&mut self) {
        if self.membership.header.changes().load(Acquire) != self.seen_changes {
            self.refresh_members();
        }
    }

    /// Whether the process at this address, or in front of it, is a member.
    fn is_alive(&self, peer: Address) -> bool {
        let added = self.added_addresses.get(&peer).filter(|(member, birth)| self.peers[*member].is_run(*birth));
        let its = |at: &&Peer| at.has_address(peer) || added.is_some_and(|(member, _)| at.member == *member);
        let found = self.peers.iter().find(its);
        found.is_some_and(|peer| self.membership.is_alive(peer.member, peer.generation))
    }

    /// Find members that were killed without leaving. Frames that they sent before are still received.
    fn check_for_dead(&mut self) {
        if self.last_check.elapsed() < CHECK_INTERVAL {
            return;
        }
        self.last_check = Instant::now();
        for at in 0..self.present.len() {
            let peer = &mut self.peers[self.present[at]];
            if peer.is_present() && !self.membership.is_alive(peer.member, peer.generation) {
                self.membership.header.remove_member(peer.member, peer.generation);
                peer.is_leaving = true;
            }
            peer.from.confirm();
        }
    }
}

impl Transport for Shm {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        self.refresh_if_changed();
        self.receive_frames(budget, each)
    }

    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        self.send_frame(to, frame)
    }

    fn flush(&mut self) {
        self.refresh_if_changed();
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
        self.check_for_dead();
        self.departed.drain(..).for_each(|address| each(Notice::PeerGone(address)));
        self.alive.drain(..).for_each(|address| each(Notice::PeerAlive(address)));
        if take(&mut self.strangers_wanted) {
            let present = self.peers.iter().filter(|peer| peer.is_present());
            present.for_each(|peer| each(Notice::StrangerAlive(address(peer.member, peer.generation))));
        }
        self.steering.notices(each);
        self.membership.segment_error().into_iter().for_each(|why| each(Notice::LinkError(why)));
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let count = &self.counters;
        each("shm_sent", count.sent);
        each("shm_received", count.received);
        each("shm_full", count.full);
        each("shm_lost_too_long", count.lost_too_long);
        each("shm_lost_alone", count.lost_alone);
        each("shm_lost_dead", count.lost_dead);
        each("shm_lost_hung", count.lost_hung);
        each("shm_no_frame", count.no_frame);
        each("shm_nonsense", count.nonsense);
        each("shm_restarts", count.restarts);
        each("shm_rings", count.rings);
        each("shm_no_bell", count.no_bell);
        each("shm_sleeps", count.sleeps);
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
