//! **The interface between the protocol and the devices**: a trait of eleven calls, for a NIC or another carrier of frames. The
//! protocol does not know what carries its frames, and a transport does not know what they mean.
//!
//! ```text
//!      am_engine::turn                    one node, one thread
//!   ┌──────┴─────────────────────────────┐
//!   │ receive(budget)   send   flush     │ control(command): steer, peer addresses, ...
//!   │        ▲            │      │       │ poll_notices: unknown flow, link error, ...
//!   ╞════════╪════════════╪══════╪═══════╡  Transport  ◀── caps: name, mode, address,
//!   │        │            ▼      ▼       │                 longest frame, pool, promises
//!   │   afxdp, dpdk, sockets, shm        │  each in a crate of its own
//!   │   loopback                         │  in this crate: a wire in memory
//!   │   faulty(…), trace(…)              │  in this crate: wrappers of any other
//!   └────────────────────────────────────┘
//! ```
//!
//! Whole Ethernet frames go through this interface, as [`Frame`]s from the transport's pool. A frame to send goes by reference: a
//! transport that keeps the frame shares it. A received frame belongs to its receiver, which may keep it. So the pool bounds the
//! memory of frames. The transport steers: it hands over only frames that [`am_wire::steer::steer`] sends to its socket.
//!
//! # Promises
//!
//! | about | every transport | only if its [`Caps`] say so |
//! | --- | --- | --- |
//! | calls | never block, never allocate after it is open, never panic because of a received frame | |
//! | received frames | are unchanged, bit for bit | all arrive, once; they arrive in order |
//! | dropped frames | are counted by reason | |
//! | frames that it or its NIC holds | are released to their pool when it is closed | |
//!
//! # Counters
//!
//! The name of a counter is that of the transport and that of the event: `loopback_full`, `faulty_dropped`. A counter of frames that
//! steering drops ends with the name of the [`am_wire::Reason`]: `steer_drop_unknown_flow`, `xdp_drop_unknown_flow`.
//!
//! # Read first
//!
//! [`Transport`], the whole trait; then [`loopback`], the simplest transport. A new transport is done when [`conformance::run`] passes.
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
//! let (to, from) = (right.caps().address, left.caps().address);
//! let link = frame::LinkAddresses { to, from, ethertype: EtherType::DEFAULT };
//! let header = Header { kind: Kind::Request, flow, nonce: 0, handler: 3, words: 0, seq: 0 };
//! let space = hello.space().expect("it is not shared");
//! frame::body(space, Framing::Bare, 5).expect("there is room").copy_from_slice(b"hello");
//! let length = frame::emit(space, Framing::Bare, &link, &header, 5, None).expect("there is room");
//! hello.set_len(length);
//!
//! assert!(left.send(link.to, &hello), "the queue is empty");
//! left.flush();
//! let mut received = vec![];
//! right.receive(64, &mut |frame| {
//!     received.extend_from_slice(frame::parse(frame.bytes(), link.ethertype).unwrap().payload)
//! });
//! assert_eq!(received, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod command;
pub mod conformance;
pub mod faulty;
mod forked;
mod joint_waker;
pub mod loopback;
pub mod memory;
mod name;
mod steering;
pub mod trace;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use am_ring::{Frame, Own, Owned, Pool};
use am_wire::Address;
pub use command::{
    Command, JoinedGroup, LentQueue, Notice, PeerAddressError, PeerInfo, QueueShape, SharedStamps, TransportExt,
};
pub use forked::Forked;
pub use joint_waker::JointWaker;
pub use name::{NameError, TransportName};
pub use steering::Steering;

/// Make the `Debug` of an error print its `Display`, so that `fn main() -> Result<(), OpenError>` and `unwrap` print text for
/// users. All public errors of the crates that programs use do so.
#[macro_export]
macro_rules! debug_as_display {
    ($error:ty) => {
        impl ::core::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)
            }
        }
    };
}

/// A struct of counters. Its `each` reports each under its field's name, with a prefix.
#[macro_export]
macro_rules! counters {
    ($name:ident, $prefix:literal: $($(#[$doc:meta])* $counter:ident),+ $(,)?) => {
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct $name {
            $($(#[$doc])* pub(crate) $counter: u64,)+
        }

        impl $name {
            pub(crate) fn each(&self, each: &mut dyn FnMut(&'static str, u64)) {
                $(each(concat!($prefix, stringify!($counter)), self.$counter);)+
            }
        }
    };
}

/// A NIC, or another carrier of frames.
///
/// A transport may lose, duplicate and reorder frames unless its [`Caps`] promise otherwise. It never blocks, and it
/// never allocates after it is open. A wrapper forwards each call in one line of code.
pub trait Transport {
    /// Its description. It is fixed when the transport is opened, with two exceptions. If the transport reopens itself, the mode and
    /// the pool may change. If its NIC gets a new address, the address changes.
    fn caps(&self) -> &Caps;

    /// Hand over at most `budget` frames that have arrived. Returns how many. Only frames that [`am_wire::steer::steer`] sends to this
    /// transport's socket are handed over. The node calls it each turn, so it is cheap when no frame has arrived.
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize;

    /// Queue a whole frame, or copy it. Its Ethernet header is complete. `to` repeats the destination, for transports with other
    /// addresses. A transport that keeps the frame [shares](am_wire::Buffer::share) it.
    ///
    /// `false` if there is no room before the next `flush`. Then the frame was not sent.
    #[must_use = "a frame for which there was no room was not sent"]
    fn send(&mut self, to: Address, frame: &Frame) -> bool;

    /// Ring the doorbell for all queued frames, and reap sent frames. The node calls it each turn, even with no frame queued.
    fn flush(&mut self) {}

    /// There is no room, as [`send`](Self::send) has said. How long the node may sleep before it tries again: a transport that wakes it
    /// when there is room says a longer time.
    fn room_within(&self) -> Duration {
        Duration::from_micros(50)
    }

    /// Carry out a command of the node, such as opening a flow for steering. [`Steering::control`] does all that most transports need.
    ///
    /// # Errors
    /// An address of a peer, or one to be served, is not possible. All other commands succeed.
    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError>;

    /// Report notices to the node, which calls this about every millisecond. [`Steering::notices`] reports those of steering.
    fn poll_notices(&mut self, _each: &mut dyn FnMut(Notice<'_>)) {}

    /// The peer at this link address, for reports.
    fn peer(&self, _at: Address) -> PeerInfo {
        PeerInfo::default()
    }

    /// Copy bytes from the memory of the process at this link address, where they start at address `at`. Returns whether `into` was
    /// filled.
    fn read_memory(&mut self, _of: Address, _at: u64, _into: &mut [u8]) -> bool {
        false
    }

    /// Whether this process can read that process's memory, and that is cheaper than frames for this many bytes.
    fn prefers_reading(&mut self, _of: Address, _bytes: u64) -> bool {
        false
    }

    /// The name and value of each of its counters. It may make system calls and allocate, so call it for reports and not in each
    /// turn.
    fn counters(&self, each: &mut dyn FnMut(&'static str, u64));
}

/// A transport's name, mode, promises and memory.
#[derive(Clone, Debug)]
pub struct Caps {
    /// The name that it was opened with: `xdp:eth1`, `loopback`.
    pub name: String,
    /// How it carries frames, for users: `veth copy`, `zero-copy`, `memory`.
    pub mode: String,
    /// Its true link address. Others can be [added](Command::AddAddress).
    pub address: Address,
    /// The longest frame, in bytes from the destination address on.
    pub max_frame: usize,
    /// Whether every frame that is sent arrives exactly once.
    pub reliable: bool,
    /// Whether frames arrive in the order in which they were sent.
    pub ordered: bool,
    /// Whether broadcasts reach each node that can send to this one, and the broadcasts of these nodes reach this one. Then
    /// nodes discover each other without a list of peers.
    pub hears_all: bool,
    /// The memory of frames, to be sent and received.
    pub pool: Pool,
    /// The descriptors to wait on, if the transport has any: one of them becomes readable when frames arrive. They are
    /// duplicates, so waiting needs no `unsafe`, and a closed descriptor's number is never used for another file.
    pub wake: Option<Vec<Arc<Own>>>,
    /// Whether one of these descriptors is readable for as long as a frame waits. Then the node does not receive once more between
    /// [`Command::BeforeSleep`] and the wait.
    pub wakes_by_level: bool,
    /// A channel for heartbeats from another thread. `None` if the transport answers [`Command::AskAlive`].
    pub out_of_band: Option<Arc<dyn OutOfBand>>,
}

/// A channel to the peers of a transport for another thread, while the node's own thread does not poll.
pub trait OutOfBand: fmt::Debug + Send + Sync {
    /// The frame that [`broadcast`](OutOfBand::broadcast) will get. A daemon that carries the frames can send it while this process
    /// is stopped.
    fn announce(&self, _frame: &[u8]) {}

    /// Send this broadcast frame to each peer that can be reached now. It may be lost. Returns whether it was sent.
    fn broadcast(&self, frame: &[u8]) -> bool;
}

/// Forward each call to the transport behind a pointer.
macro_rules! forward {
    () => {
        fn caps(&self) -> &Caps {
            (**self).caps()
        }

        #[inline]
        fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
            (**self).receive(budget, each)
        }

        #[inline]
        fn send(&mut self, to: Address, frame: &Frame) -> bool {
            (**self).send(to, frame)
        }

        #[inline]
        fn flush(&mut self) {
            (**self).flush();
        }

        fn room_within(&self) -> Duration {
            (**self).room_within()
        }

        fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
            (**self).control(command)
        }

        fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
            (**self).poll_notices(each);
        }

        fn peer(&self, at: Address) -> PeerInfo {
            (**self).peer(at)
        }

        fn read_memory(&mut self, of: Address, at: u64, into: &mut [u8]) -> bool {
            (**self).read_memory(of, at, into)
        }

        fn prefers_reading(&mut self, of: Address, bytes: u64) -> bool {
            (**self).prefers_reading(of, bytes)
        }

        fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
            (**self).counters(each);
        }
    };
}

/// A boxed transport, chosen at run time, is a transport.
impl<T: Transport + ?Sized> Transport for Box<T> {
    forward!();
}

/// A transport that a forked child does not close is a transport.
impl<T: Transport> Transport for Owned<T> {
    forward!();
}
