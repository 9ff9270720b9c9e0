//! **A network in one thread**: NICs, links and a switch that go wrong in every
//! way that real ones do, a clock that is only a number, and one seed from which
//! all of it follows. What failed once fails again, from the same seed.
//!
//! ```text
//!   node 0                        node 1                         the caller's: engine, proto, ...
//!   ──┼── am_transport::Transport ─────┼───────────────────────────────────────
//!     ▼                             ▼
//!    Nic ─ fill, RX, TX, completion Nic     finite rings; late completions; lost wake-ups
//!     │ ▲                           │ ▲
//!    Link                          Link     rate, delay, loss, duplicates, reordering,
//!     ▼ │                           ▼ │     damage, partition
//!   ╔═══╧═══════════════════════════╧════╗
//!   ║ Switch: learns, buffers, tail-drops║
//!   ╚════════════════════════════════════╝
//!        Clock: what happens next, and when      Options: everything, drawn from the seed
//!        check: did it all go as promised?
//! ```
//!
//! But for [`live`], nothing here reads a clock, starts a thread, or opens a file. The caller
//! asks [`Net::step`] for what concerns its nodes next, gives them their turn
//! on [`Net::nic`], and says so with [`Net::turned`]. Nodes that own their
//! transport get a [`Plug`]. Against the machine's clock, for nodes on threads of their own, it is
//! the transport `sim:SEED`: [`live`].
//!
//! # What is checked when
//!
//! | checker | after |
//! | --- | --- |
//! | `frames`, `memory` | every event of the network (what was conserved at a turn's end still is), and, counted anew, every turn |
//! | `credits` | all that arrived in a turn, each message admitted, every turn; to the last one when all is quiet |
//! | `delivery`, `content` | each message delivered, returned, or kept and looked at again |
//! | `order` | each message delivered or returned, of flows that keep the order |
//! | `kept` | every turn: what counts as acknowledged was accepted |
//! | `endings` | each flow that ends |
//! | `liveness` | every event, once the faults are over |
//!
//! # A run that fails
//!
//! It prints what was promised, and the line that repeats it:
//!
//! ```text
//! seed 29: endings: flow 0x3000100000002 was given up, but the other side lives and would answer
//!     NETDEV_SIM_SEED=29 NETDEV_SIM_SETTING=small-windows NETDEV_SIM_PLANT=NeverAsks cargo test -p am-netdev-sim --test networks seeds::one_seed -- --exact --nocapture
//! ```
//!
//! That one has a bug on purpose. `proto` has several behind its feature
//! `planted`, which only the tests here switch on (they cost nothing without
//! it), and [`Options`] has two more: each checker must catch its own, or it
//! checks nothing (`tests/networks/planted.rs`). `NETDEV_SIM_PCAP=FILE` adds what passed
//! the switch, for tcpdump.
//!
//! # Read first
//!
//! [`Options`], the whole list of what can go wrong; [`Card`], for what AF_XDP
//! asks of who uses it; then [`check`], one file for each promise. In `tests/`
//! whole nodes run on it: `tests/networks/seeds.rs` says how to repeat one seed, and
//! `tests/networks/coverage.rs` what really happens in them.
//!
//! ```
//! use am_netdev_sim::{Happening, Net, Options};
//! use am_transport::{Transport, TransportExt};
//! use am_wire::{Buffer, EtherType, Flow, Framing, Header, Kind, frame};
//!
//! let mut net = Net::new(Options::calm(2));
//! let link = frame::Link { to: net.address(1), from: net.address(0), ethertype: EtherType::DEFAULT };
//! let flow = Flow::new(7).unwrap();
//! net.nic(1).steer(flow, true);
//!
//! let mut hello = net.nic(0).caps().pool.take().unwrap();
//! let header = Header { kind: Kind::Request, flow, nonce: 0, handler: 3, words: 0, seq: 0 };
//! let space = hello.space().unwrap();
//! frame::body(space, Framing::Split, 5).unwrap().copy_from_slice(b"hello");
//! let length = frame::emit(space, Framing::Split, &link, &header, 5, None).unwrap();
//! hello.set_len(length);
//! assert!(net.nic(0).send(link.to, &hello), "room");
//! net.nic(0).flush();
//! net.turned(0);
//!
//! assert_eq!(net.step(), Some(Happening::Wake(1)));
//! assert!(net.now() > 0, "it took its time");
//! assert_eq!(net.nic(1).receive(64, &mut |_| ()), 1);
//! ```
#![forbid(unsafe_code)]

mod capture;
mod card;
pub mod check;
mod clock;
mod driver;
mod fault;
mod link;
pub mod live;
mod net;
mod nic;
mod options;
mod plug;
mod signal;
mod switch;

pub use capture::Capture;
pub use card::{Card, NicCount};
pub use clock::{Clock, MS, Nanos, US};
pub use driver::Driver;
pub use link::{Link, LinkCount};
pub use net::{Happening, Net, Step};
pub use nic::{Nic, Station};
pub use options::{Death, Netem, Options, Partition, Stall};
pub use plug::{Cut, Plug};
pub use signal::Signal;
pub use switch::{Switch, SwitchCount};
