//! **Processes of one host, through shared memory.** All that open `shm:NAME` are on one link, as on a small switch;
//! they come and go as they like.
//!
//! ```text
//!   process A                    the segment: a file in /dev/shm                      process B
//!  ┌───────────────┐  copy  ┌─────────┬──────────────────────────────────┐  copy  ┌───────────────┐
//!  │ Frame of A's ─┼──in───▶│ lane A▶B│ length│frame  length│frame  0    │───out─▶│ Frame of B's  │
//!  │ own pool      │        ├─────────┼──────────────────────────────────┤        │ own pool,     │
//!  │ steering   ◀──┼──out───│ lane B▶A│ length│frame  0                  │◀──in───┼─ steered      │
//!  └───────────────┘        ├─────────┴──────────────────────────────────┤        └───────────────┘
//!     ▲                     │ header: version, geometry, who is there    │                  ▲
//!     └──── FIFO ◀── rings, where `asleep` is set ───────────────────────┘──────── FIFO ────┘
//! ```
//!
//! Each member has a lane to each other, of which it is the only writer ([`am_ring::lane`]): who polls it polls the
//! line that the next frame comes in, and a small frame is that one line. Nothing is interpreted where others can write it:
//! frames are copied out first ([decision 30](../../../docs/decisions/0030-copy-shared-memory-before-reading.md)).
//!
//! Who is alive the kernel knows: each member holds a lock on the file, which is given up with its process, however that
//! ends (`locks.rs`). Its place, its lanes and its FIFO are then the next one's; the last that leaves removes the file,
//! and where nobody could, whoever opens the name next starts from nothing.
//!
//! # Limits
//!
//! - A frame for a member that died is lost with it: `shm_lost_dead`. One that lives and takes
//!   nothing while its lane is full for 250 ms is taken for hung until it does: `shm_lost_hung`.
//! - Who may open the file may write anything into it, at any time. That loses frames, and forges some, but it makes
//!   no member read or write elsewhere, panic or hang. It may also cut the file short, upon which the kernel ends members
//!   that touch what is gone (SIGBUS): let only those in who may end your processes anyway. The default
//!   is this user alone.
//!
//! # Read first
//!
//! [`Options`], then `send.rs` and `receive.rs`, the data path; `join.rs` is how a process comes and goes, `bell.rs` how it sleeps.
//!
//! ```
//! use am_shm::Options;
//! use am_transport::Transport;
//!
//! let options = Options { frames: 64, ..Options::new(format!("example-{}", std::process::id())) };
//! let (mut one, mut other) = (am_shm::open(&options)?, am_shm::open(&options)?);
//! assert_ne!(one.caps().address, other.caps().address);
//! let frame = one.caps().pool.copy(&[0; 60]).unwrap();
//! assert!(one.send(other.caps().address, &frame));
//! one.flush();
//! // It is no frame of ours, and steering says so.
//! assert_eq!(other.receive(64, &mut |_| ()), 0);
//! let mut foreign = 0;
//! other.counters(&mut |name, value| if name == "steer_pass_foreign" { foreign = value });
//! assert_eq!(foreign, 1);
//! # Ok::<(), am_shm::OpenError>(())
//! ```
#![allow(unsafe_code, reason = "memory that processes share")]

mod bell;
mod count;
mod errors;
mod gone;
mod header;
mod join;
mod lines;
mod locks;
mod map;
mod options;
mod pages;
mod peer;
mod place;
mod receive;
mod send;
mod sweep;

use std::sync::atomic::Ordering::Acquire;

use am_ring::Frame;
use am_transport::{Caps, Command, IntroduceError, Notice, Steering, Transport};
use am_wire::Address;

use bell::Bell;
use count::Count;
pub use errors::OpenError;
use errors::system;
use gone::Gone;
use join::Membership;
pub use lines::Lines;
pub use options::{Options, OptionsError};
use peer::{Peer, address};

/// One member of a link.
#[derive(Debug)]
pub struct Shm {
    caps: Caps,
    steering: Steering,
    own: Membership,
    bell: Bell,
    /// By number; our own is nobody.
    peers: Box<[Peer]>,
    /// Numbers of those who are there, or have left and may have sent something before.
    present: Vec<usize>,
    /// Whose lane is looked at first.
    first: usize,
    /// The header's count of changes when we last looked who is there.
    seen: u32,
    /// A bit for each whose lane has something that it may not see yet.
    unpublished: u64,
    /// Receives one after the other that found nothing.
    idle: u32,
    gone: Gone,
    count: Count,
}

/// Join a link, or make it.
///
/// # Errors
/// See [`OpenError`]. Nothing of the attempt is left.
pub fn open(options: &Options) -> Result<Shm, OpenError> {
    options.check()?;
    let own = Membership::join(options)?;
    let name = own.place.fifo(own.own);
    let bell =
        Bell::new(own.place.dir_fd(), &name, options.mode).map_err(system("cannot make the FIFO of a member"))?;
    let address = address(own.own, own.birth);
    let caps = Caps {
        name: format!("shm:{}", options.name),
        mode: own.pages.mode(own.mapped.address()),
        address,
        max_frame: own.geometry.frame,
        reliable: true,
        ordered: true,
        hears_all: true,
        pool: map::pool(options.frames, own.geometry.frame)?,
        wake: Some(vec![bell.wake()]),
    };
    let peers: Box<[Peer]> = (0..own.geometry.members).map(|member| Peer::new(&own, member)).collect();
    let present = Vec::with_capacity(peers.len());
    own.show();
    let steering = Steering::new(options.ethertype, address);
    let (gone, count) = (Gone::new(peers.len()), Count::default());
    let (first, seen, unpublished, idle) = (0, 0, 0, 0);
    let mut shm = Shm { caps, steering, own, bell, peers, present, first, seen, unpublished, idle, gone, count };
    shm.refresh();
    Ok(shm)
}

impl Shm {
    /// Who is there may have changed.
    #[inline]
    fn look(&mut self) {
        if self.own.header.changes().load(Acquire) != self.seen {
            self.refresh();
        }
    }

    /// A member that was killed has sent no farewell. What it sent before is still taken in.
    fn look_for_dead(&mut self) {
        if !self.gone.is_time() {
            return;
        }
        for at in 0..self.present.len() {
            let peer = &mut self.peers[self.present[at]];
            if peer.is_here() && !self.own.is_alive(peer.member, peer.birth) {
                self.own.header.bury(peer.member, peer.birth);
                peer.is_leaving = true;
            }
        }
    }
}

impl Transport for Shm {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        self.look();
        self.take(budget, each)
    }

    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        self.put(to, frame)
    }

    fn flush(&mut self) {
        self.look();
        self.publish();
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), IntroduceError> {
        self.steering.control(command, &self.caps)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.look_for_dead();
        self.gone.drain().for_each(|address| each(Notice::PeerGone(address)));
        self.steering.notices(each);
        self.own.harm().into_iter().for_each(|why| each(Notice::LinkError(why)));
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.count.each(each);
        self.steering.counters(each);
    }
}

impl Drop for Shm {
    /// What was sent is seen by who is there; then we are gone.
    fn drop(&mut self) {
        self.publish();
    }
}
