//! **A network in one thread**: NICs, links and a switch with the faults of real ones, and a virtual clock. One seed
//! determines everything, so the same seed repeats a failure.
//!
//! ```text
//!   node 0                        node 1                         of the caller: engine, proto, ...
//!   ──┼── am_transport::Transport ──┼──────────────────────────────────────────
//!     ▼                             ▼
//!    Nic ─ fill, RX, TX, completion Nic     finite rings, late completions, lost wake-ups
//!     │ ▲                           │ ▲
//!    SimLink                       SimLink   rate, delay, loss, duplicates, reordering,
//!     ▼ │                           ▼ │     damage, partition
//!   ╔═══╧═══════════════════════════╧════╗
//!   ║ Switch: learns, buffers, drops     ║
//!   ╚════════════════════════════════════╝
//!        the queue of events, in virtual time     NetOptions: every setting, drawn from the seed
//!        check: verifies each promise
//! ```
//!
//! Only [`live`] reads a clock. Nothing else here reads one, starts a thread or opens a file. The caller asks
//! [`Net::step`] for the next event of a node, runs that node on [`Net::nic`], and then calls [`Net::start_nic`]. A node
//! that owns its transport gets a [`NicHandle`]. [`live`] runs the same network against the machine's clock, for nodes on
//! threads of their own: the transport `sim:SEED`.
//!
//! # When each checker runs
//!
//! | checker | after |
//! | --- | --- |
//! | `frames`, `memory` | every event: the counts are those at the end of the last turn; every turn: a full count |
//! | `credits` | the frames of a turn, each admitted message, every turn; exact when the network is quiet |
//! | `delivery`, `content` | each message that is delivered, returned, or kept and read again |
//! | `order` | each message that is delivered or returned, on flows that keep the order |
//! | `kept` | every turn: the receiver accepted each acknowledged message |
//! | `endings` | each flow that ends |
//! | `liveness` | every event after the last fault |
//!
//! # A run that fails
//!
//! A failing run prints the broken promise, and the command that repeats it:
//!
//! ```text
//! seed 29: endings: flow 0x3000100000002 was given up, but the other side lives and answers
//!     NETDEV_SIM_SEED=29 NETDEV_SIM_SETTING=small-windows NETDEV_SIM_PLANT=NeverAsks cargo test -p am-netdev-sim --test networks seeds::one_seed -- --exact --nocapture
//! ```
//!
//! This run has a mutant: a bug built in on purpose. `proto` has several behind its feature `planted`. Only the tests
//! here enable that feature, and it costs nothing elsewhere. [`NetOptions`] has two more mutants. Each shows that its
//! checker works (`tests/networks/mutants.rs`). `NETDEV_SIM_PCAP=FILE` writes the frames that reached the switch, for tcpdump.
//!
//! # Read first
//!
//! [`NetOptions`] lists every fault. [`Card`] has the rules that AF_XDP imposes on its user. [`check`] has the
//! promises. In `tests/` whole nodes run on the network: `tests/networks/seeds.rs` says how to repeat one seed, and
//! `tests/networks/coverage.rs` shows which faults really occur.
//!
//! ```
//! use am_netdev_sim::{NodeEvent, Net, NetOptions};
//! use am_transport::{Transport, TransportExt};
//! use am_wire::{Buffer, EtherType, Flow, Framing, Header, Kind, frame};
//!
//! let mut net = Net::new(NetOptions::calm(2));
//! let link = frame::LinkAddresses { to: net.address(1), from: net.address(0), ethertype: EtherType::DEFAULT };
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
//! net.start_nic(0);
//!
//! assert_eq!(net.step(), Some(NodeEvent::Wake(1)));
//! assert!(net.now() > 0, "time has passed");
//! assert_eq!(net.nic(1).receive(64, &mut |_| ()), 1);
//! ```
#![forbid(unsafe_code)]

mod card;
pub mod check;
mod clock;
mod fault;
pub mod live;
mod net;
mod nic;
mod nic_handle;
mod options;
mod sim_link;
mod switch;
mod wire_frame;

pub use card::{Card, NicCount};
pub use clock::{MS, Nanos, US};
pub use fault::Driver;
pub use net::{Net, NodeEvent};
pub use nic::{NetDevice, Nic};
pub use nic_handle::{Disconnector, NicHandle};
pub use options::{Death, NetOptions, Netem, Partition, Stall};
pub use sim_link::{SimLink, SimLinkCount};
pub use switch::{Switch, SwitchCount};
