//! **The seam.** A NIC, or what stands for one, behind a trait of eight calls.
//! The protocol does not know what carries its frames; a transport does not
//! know what they mean.
//!
//! ```text
//!      am_engine::turn                    one node, one thread
//!   ┌──────┴─────────────────────────────┐
//!   │ receive(budget)   send   flush     │ control(command): steer, peer addresses, ...
//!   │        ▲            │      │       │ poll_notices: unknown flow, link error, ...
//!   ╞════════╪════════════╪══════╪═══════╡  Transport  ◀── caps: name, mode, address,
//!   │        │            ▼      ▼       │                 longest frame, pool, promises
//!   │   afxdp, dpdk, sockets, shm        │  each in a crate of its own
//!   │   loopback                         │  in here: a wire in memory
//!   │   faulty(…), trace(…)              │  in here: around any other
//!   └────────────────────────────────────┘
//! ```
//!
//! Whole Ethernet frames go through it, as [`Frame`]s from the pool that
//! the transport brings. A frame to send goes by reference: a transport that
//! copies it leaves it alone, one that keeps it shares it. A received frame is
//! its receiver's, which may keep it. So memory is bounded by the pool and by nothing else.
//! Steering happens below: what [`am_wire::steer::steer`] does not send to this
//! transport's socket is never seen above.
//!
//! # What is promised
//!
//! | a transport | always | only if its caps say so |
//! | --- | --- | --- |
//! | calls | never block, never allocate after it is open, never panic for what arrives | |
//! | frames that arrive | every bit as it was sent | all of them, once; in order |
//! | frames that it drops | are counted, by reason | |
//! | frames that it holds | come home when it is closed, also those that the NIC has | |
//!
//! # Counters
//!
//! A name is `who_what`, in lower case: `loopback_full`, `faulty_dropped`. What
//! steering turns away ends in the name of its [`am_wire::Reason`], whoever steers:
//! `steer_drop_unknown_flow`, `xdp_drop_unknown_flow`.
//!
//! # Read first
//!
//! [`Transport`], all of it; then [`loopback`], the simplest that there is. To
//! write one, make [`conformance::run`] pass.
//!
//! ```
//! use am_transport::{Command, Transport, loopback};
//! use am_wire::{Buffer, EtherType, Flow, Framing, Header, Kind, frame};
//!
//! let [left, right] = loopback::wire(2).try_into().unwrap();
//! let (mut left, mut right) = (left.open()?, right.open()?);
//! let flow = Flow::new(7).unwrap();
//! right.control(Command::Steer { flow, open: true })?;
//!
//! let mut hello = left.caps().pool.take().expect("none is used yet");
//! let link = frame::Link { to: right.caps().address, from: left.caps().address, ethertype: EtherType::DEFAULT };
//! let header = Header { kind: Kind::Request, flow, nonce: 0, handler: 3, words: 0, seq: 0 };
//! let space = hello.space().expect("nobody shares it");
//! frame::body(space, Framing::Bare, 5).expect("there is room").copy_from_slice(b"hello");
//! let length = frame::emit(space, Framing::Bare, &link, &header, 5, None).expect("there is room");
//! hello.set_len(length);
//!
//! assert!(left.send(link.to, &hello), "the queue is empty");
//! left.flush();
//! let mut heard = vec![];
//! right.receive(64, &mut |frame| heard.extend_from_slice(frame::parse(frame.bytes(), link.ethertype).unwrap().payload));
//! assert_eq!(heard, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod boxed;
mod caps;
mod command;
pub mod conformance;
pub mod faulty;
pub mod loopback;
pub mod memory;
mod name;
pub mod pcap;
mod peer_error;
mod steering;
pub mod trace;

use am_ring::Frame;
use am_wire::Address;
pub use caps::Caps;
pub use command::{Command, Notice, PeerInfo, TransportExt};
pub use name::{Name, NameError};
pub use peer_error::IntroduceError;
pub use steering::Steering;

/// The seam: a NIC, or what stands for one.
///
/// A transport may lose, duplicate and reorder frames unless its [`Caps`] say
/// otherwise. It never blocks, and after it is open it never allocates.
/// A wrapper forwards each call in a line.
pub trait Transport {
    /// What it is and can do. It is fixed when the transport is opened, but for mode and pool of one that reopens itself.
    fn caps(&self) -> &Caps;

    /// Hand over at most `budget` frames that have arrived; returns how many.
    /// Only frames that [`am_wire::steer::steer`] sends to this transport's
    /// socket are handed over. Called in each turn: it is cheap where nothing has arrived.
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize;

    /// Queue a whole frame, or copy it. The Ethernet header in it is complete; `to`
    /// repeats its destination for transports that address otherwise. A transport
    /// that keeps the frame [shares](am_wire::Buffer::share) it.
    ///
    /// False: there is no room before the next `flush`, and the frame was not sent.
    #[must_use = "a frame for which there was no room was not sent"]
    fn send(&mut self, to: Address, frame: &Frame) -> bool;

    /// Ring the doorbell for everything queued, take back what has been sent.
    /// Called once a turn, with nothing queued too.
    fn flush(&mut self) {}

    /// What the node tells it besides frames: flows for steering first of all.
    /// [`Steering::control`] does all that most transports need.
    ///
    /// # Errors
    /// A peer's address was refused. All other commands succeed.
    fn control(&mut self, command: Command<'_>) -> Result<(), IntroduceError>;

    /// What it tells the node. Called every millisecond or so, not in each turn.
    /// [`Steering::notices`] says what steering has found.
    fn poll_notices(&mut self, _each: &mut dyn FnMut(Notice<'_>)) {}

    /// What it knows of the peer at this address. For people.
    fn peer(&self, _at: Address) -> PeerInfo {
        PeerInfo::default()
    }

    /// Name and value of every counter it keeps. For people and reports, not
    /// for every turn: it may ask the system, and may allocate.
    fn counters(&self, each: &mut dyn FnMut(&'static str, u64));
}
