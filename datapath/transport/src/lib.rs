//! **The seam.** A NIC, or what stands for one, behind a trait of few calls.
//! The protocol does not know what carries its frames; a transport does not
//! know what they mean.
//!
//! ```text
//!      am_engine::turn                    one node, one thread
//!   ┌──────┴─────────────────────────────┐
//!   │ receive(budget)   send   flush     │ steer(flow, open)
//!   │        ▲            │      │       │
//!   ╞════════╪════════════╪══════╪═══════╡  Transport  ◀── caps: name, mode, address,
//!   │        │            ▼      ▼       │                 longest frame, pool, promises
//!   │   afxdp, dpdk, sockets, shm        │  each in a crate of its own
//!   │   loopback                         │  in here: a wire in memory
//!   │   faulty(…), trace(…)              │  in here: around any other
//!   └────────────────────────────────────┘
//! ```
//!
//! Whole Ethernet frames go through it, as owned [`Frame`]s from the pool that
//! the transport brings. A full transport gives the frame back and a received
//! frame may be kept, so memory is bounded by the pool and by nothing else.
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
//! use am_transport::{Transport, loopback};
//! use am_wire::{Buffer, EtherType, Flow, Framing, Header, Kind, frame};
//!
//! let [left, right] = loopback::wire(2).try_into().unwrap();
//! let (mut left, mut right) = (left.open()?, right.open()?);
//! let flow = Flow::new(7).unwrap();
//! right.steer(flow, true);
//!
//! let mut hello = left.caps().pool.take().expect("none is used yet");
//! let link = frame::Link { to: right.caps().address, from: left.caps().address, ethertype: EtherType::DEFAULT };
//! let header = Header { kind: Kind::Request, flow, nonce: 0, handler: 3, words: 0, seq: 0 };
//! let space = hello.space().expect("nobody shares it");
//! frame::body(space, Framing::Bare, 5).expect("there is room").copy_from_slice(b"hello");
//! let length = frame::emit(space, Framing::Bare, &link, &header, 5, None).expect("there is room");
//! hello.set_len(length);
//!
//! left.send(link.to, hello).expect("the queue is empty");
//! left.flush();
//! let mut heard = vec![];
//! right.receive(64, &mut |frame| heard.extend_from_slice(frame::parse(frame.bytes(), link.ethertype).unwrap().payload));
//! assert_eq!(heard, b"hello");
//! # Ok::<(), am_ring::LayoutError>(())
//! ```
#![forbid(unsafe_code)]

mod boxed;
mod caps;
pub mod conformance;
pub mod faulty;
pub mod loopback;
mod membership;
pub mod memory;
mod name;
pub mod pcap;
mod steering;
pub mod trace;

use am_ring::Frame;
use am_wire::bounce::Back;
use am_wire::{Address, Flow};
pub use caps::Caps;
pub use membership::IntroduceError;
pub use name::{Name, NameError};
pub use steering::Steering;

/// The seam: a NIC, or what stands for one, behind four calls.
///
/// A transport may lose, duplicate and reorder frames unless its [`Caps`] say
/// otherwise. It never blocks, and after it is open it never allocates.
pub trait Transport {
    /// What it is and can do; fixed when it is opened, but for mode and pool, where it opens itself anew.
    fn caps(&self) -> &Caps;

    /// Hand over at most `budget` frames that have arrived; returns how many.
    /// Only frames that [`am_wire::steer::steer`] sends to this transport's
    /// socket are seen here.
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize;

    /// Queue a whole frame. The Ethernet header in it is complete; `to`
    /// repeats its destination for transports that address otherwise.
    ///
    /// # Errors
    /// No room now: the frame comes back. Try again after the next `flush`.
    fn send(&mut self, to: Address, frame: Frame) -> Result<(), Frame>;

    /// Ring the doorbell for everything queued, take back what has been sent.
    /// Called once a turn, with nothing queued too.
    fn flush(&mut self);

    /// A flow id of this node is in use from now on, or no longer: where frames
    /// are steered before they are seen, the steering table follows.
    fn steer(&mut self, flow: Flow, open: bool);

    /// How requests of a flow go back to their sender while this node is
    /// [full](Transport::full); forgotten when the flow closes. For those with a
    /// program that can return them before the host sees them; elsewhere the
    /// host does. Where it leads a node has answered: the [gate](am_wire::gate) knows that address from then on.
    fn way_back(&mut self, _flow: Flow, _back: &Back) {}

    /// There is no room for requests, or there is again.
    fn full(&mut self, _is_full: bool) {}

    /// The last flow that a frame came for though it is not open here, since
    /// this was last asked. Steering keeps such frames; their sender may have
    /// missed that the flow is over, and is to be told.
    fn stray(&mut self) -> Option<Flow> {
        None
    }

    /// The address of a peer that has ended for good since this was last asked; of several, one each time. For those that are
    /// told so by the system, which nobody on the link can forge. Asked every millisecond or so.
    fn gone(&mut self) -> Option<Address> {
        None
    }

    /// So many frames at most are promised room on this side: credits granted.
    /// For those that can keep more or less of it ready.
    fn promise(&mut self, _frames: usize) {}

    /// Somebody may be at this place, as a transport of this kind is named
    /// (`udp:10.0.0.7:7000`, what the [`Caps::name`] there says): frames to everybody reach them too from now on, and so discovery does. Nothing
    /// says yet that anybody is there. A call of set-up, not of every turn: it
    /// may allocate; it does not block. Twice is once.
    ///
    /// # Errors
    /// See [`IntroduceError`]; where the link reaches everybody,
    /// [`Needless`](IntroduceError::Needless).
    fn introduce(&mut self, _place: &str) -> Result<(), IntroduceError> {
        Err(IntroduceError::Needless { transport: self.caps().name.clone() })
    }

    /// Nobody is at this place any more: what was kept for it is given back.
    /// Frames that still come from there are taken as a stranger's.
    ///
    /// # Errors
    /// As [`introduce`](Transport::introduce). A place that was never
    /// introduced is no error.
    fn forget(&mut self, _place: &str) -> Result<(), IntroduceError> {
        Err(IntroduceError::Needless { transport: self.caps().name.clone() })
    }

    /// Why nothing leaves or arrives now: the interface is down or gone, the
    /// socket was closed. Asked every millisecond or so, not every turn.
    fn broken(&mut self) -> Option<&str> {
        None
    }

    /// What is sent to this address seems not to arrive. For those that know
    /// another way.
    fn suspect(&mut self, _to: Address) {}

    /// Which way frames to this address take, and why, where there are several.
    fn way_to(&self, _to: Address) -> Option<String> {
        None
    }

    /// Where the peer with this address is, named as its own transport is, where that says more than the address.
    fn place_of(&self, _to: Address) -> Option<String> {
        None
    }

    /// Name and value of every counter it keeps. For people and reports, not
    /// for every turn: it may ask the system, and may allocate.
    fn counters(&self, each: &mut dyn FnMut(&'static str, u64));
}
