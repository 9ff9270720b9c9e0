//! **What a frame is.** Bytes in, meaning out, and back; nothing else.
//!
//! Directed Point (Lee, Tam, Wang, §4.1) put its whole message header into the
//! *source address* of the Ethernet frame, so that all 1500 bytes of payload
//! belong to the user. This crate does the same, and offers two other
//! [`Framing`]s of the same [`Header`] for networks that look at source addresses.
//!
//! ```text
//!          0           6           12    14                                  60..
//!          ┌───────────┬───────────┬─────┬────────────────────────────┬───────┐
//!  bare    │destination│  HEADER   │0x88B5 body: words, payload       │trailer│
//!          ├───────────┼───────────┼─────┼─────────┬──────────────────┼───────┤
//!  split   │destination│steer part │0x88B5 rest, 8B│ body             │trailer│
//!          ├───────────┼───────────┼─────┼─────────┴──────┬───────────┼───────┤
//!  plain   │destination│true source│0x88B6 header, 12 B   │ body      │trailer│
//!          └───────────┴───────────┴─────┴────────────────┴───────────┴───────┘
//!                                            the trailer exists only where the
//!                                            frame would be padded to 60 bytes
//! ```
//!
//! Read first: [`Header`], then [`frame::emit`] and [`frame::parse`], then
//! [`steer::steer`], whose twin in C runs in the kernel (`bpf/steer.bpf.c`).
//! The layout bit by bit, with the reasons, is in `docs/wire.md`, which a test
//! holds against this code.
//!
//! ```
//! use am_wire::{frame, Address, EtherType, Flow, Framing, Header, Kind};
//!
//! let header = Header { kind: Kind::Request, flow: Flow::new(7).unwrap(), nonce: 0, handler: 3, words: 0, seq: 41 };
//! let mut buffer = [0u8; 1514];
//! frame::body(&mut buffer, Framing::Bare, 5).unwrap().copy_from_slice(b"hello");
//! let link = frame::LinkAddresses { to: Address([2, 0, 0, 0, 0, 2]), from: Address([2, 0, 0, 0, 0, 1]), ethertype: EtherType::DEFAULT };
//! let length = frame::emit(&mut buffer, Framing::Bare, &link, &header, 5, None).unwrap();
//! assert_eq!(length, 60);
//!
//! let parsed = frame::parse(&buffer[..length], EtherType::DEFAULT).unwrap();
//! assert_eq!((parsed.header, parsed.payload), (header, &b"hello"[..]));
//! ```
#![no_std]
#![forbid(unsafe_code)]

mod ack;
mod address;
mod address_set;
mod bare;
pub mod bounce;
mod buffer;
pub mod bulk;
mod close;
pub mod coalesced;
mod codec;
pub mod control;
pub mod frame;
mod framing;
pub mod gate;
pub mod group;
mod group_header;
mod header;
mod length;
pub mod long;
mod name;
mod payload;
mod reason;
mod reject;
mod route;
mod seq;
mod siphash;
pub mod stamp;
pub mod steer;
mod template;
mod trailer;

pub use ack::{Ack, AckHint, Acks, SeqLowBits};
pub use address::{Address, EtherType};
pub use address_set::AddressSet;
pub use buffer::Buffer;
pub use framing::{Framing, Framings};
pub use header::{Class, Flow, HEAD_WORDS, Header, Kind, MAX_WORDS, WORD_BYTES};
#[cfg(feature = "planted")]
pub use length::planted;
pub use reason::Reason;
pub use reject::Reject;
pub use route::{Route, RouteTemplate};
pub use seq::{Seq, expand};
pub use siphash::HashKey;
pub use template::{ShortFrame, ShortMessage, Template};
pub use trailer::{Piggyback, PiggybackClass};
