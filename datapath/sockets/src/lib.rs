//! **Frames over the kernel's UDP and TCP sockets.** They need no privileges and no particular NIC. They work over IPv4 and
//! IPv6, also through routers. They are slower than AF_XDP, and work everywhere.
//!
//! ```text
//!                Transport: whole Ethernet frames, steered
//!   ┌───────────────────────────────┬──────────────────────────────────┐
//!   │ udp   a frame is a datagram   │ tcp   a frame follows its length │
//!   │       neither reliable        │       reliable and ordered while │
//!   │       nor ordered             │       a connection lives         │
//!   │   flush: one sendmmsg, runs   │   flush: one sendmsg for each    │
//!   │          leave as one (GSO)   │          connection              │
//!   │   receive: one recvmmsg;      │   receive: one read, split       │
//!   │          GRO's are split      │          into frames             │
//!   └───────────────┬───────────────┴────────────────┬─────────────────┘
//!              the kernel's stack  ──▶  any interface, loopback too
//! ```
//!
//! On these networks there is no single link with all nodes. So a transport chooses its own six-byte
//! [`Address`](am_wire::Address) when it is opened. Broadcasts go to all peer addresses that the program has added, and to all
//! peers from which a frame has arrived. UDP learns the socket address of a link address from control frames, as a switch
//! learns ports. TCP learns it from the hello that each side sends first.
//!
//! Read first: the pages of [`udp`] and [`tcp`]; then [`SocketOptions`]. `am-bench ablation --hosts udp` (or `tcp`)
//! compares this crate alone with bare sockets (row `buffers`).
//!
//! ```
//! use am_sockets::{SocketOptions, udp};
//! use am_transport::{Transport, TransportExt};
//! use am_wire::{Address, Buffer, EtherType, Flow, Framing, Header, Kind, frame};
//!
//! let mut left = udp::open(&SocketOptions::from_name(&"udp:127.0.0.1:0".parse()?)?)?;
//! let mut right = udp::open(&SocketOptions::from_name(&"udp:127.0.0.1:0".parse()?)?)?;
//! left.add_peer(right.caps().name.strip_prefix("udp:").unwrap())?;
//!
//! let mut hello = left.caps().pool.take().expect("none is used yet");
//! let link = frame::LinkAddresses { to: Address::BROADCAST, from: left.caps().address, ethertype: EtherType::DEFAULT };
//! let header = Header { kind: Kind::Control, flow: Flow::NODE, nonce: 0, handler: 0, words: 0, seq: 0 };
//! let space = hello.space().expect("it has no other handle");
//! // The body of a keepalive, see docs/wire.md.
//! frame::body(space, Framing::Plain, 9)?.copy_from_slice(&[8, 0, 1, 0, 7, 0, 2, 0, 9]);
//! let length = frame::emit(space, Framing::Plain, &link, &header, 9, None)?;
//! hello.set_len(length);
//!
//! assert!(left.send(link.to, &hello), "the queue is empty");
//! left.flush();
//! let mut received = 0;
//! while received == 0 {
//!     received = right.receive(64, &mut |frame| assert_eq!(frame.bytes().len(), length));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

mod errors;
mod local_address;
mod options;
mod peer_address;
mod setup;
pub mod tcp;
pub mod udp;

pub use errors::SocketOpenError;
pub use options::SocketOptions;
pub use tcp::Tcp;
pub use udp::Udp;
