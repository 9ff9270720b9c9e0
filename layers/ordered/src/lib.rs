//! **Totally ordered multicast.** Every message of a group reaches all members in one order, through crashes, joins and leaves
//! (Bal et al., *Performance of a High-Level Parallel Language on a High-Speed Network*, 1997, section 4.2).
//!
//! ```text
//!   member a            sequencer (a member)            member b          member c
//!     │ submit ─────────────▶│ gives it number 41           │                 │
//!     │◀──────── stamped ────┼──────── stamped ────────────▶│────────────────▶│
//!   deliver 41            deliver 41                    deliver 41         deliver 41
//! ```
//!
//! - [`Level::Agreed`]: a message is delivered as soon as its place is known and all before it were delivered.
//! - [`Level::Safe`]: when each majority has a member that holds it, so that no crash that leaves a majority undoes it.
//!
//! A group goes on while a majority of its last [`View`] answers each other. A member that stops for a second stays one.
//! `docs/promises.md` says what holds when members crash.
//!
//! Where all members are on one Ethernet, messages are frames of the group, and the sequencer's XDP program can number them without waking its
//! process (`frames.rs`).
//!
//! A process that joins gets the [state](Replica::save) of another member. A large one has [parts](Replica::save_part), between which messages go on.
//!
//! Read first: `examples/chat.rs`, then [`Group`] and [`Replica`]. The protocol is in `am-ordered-core`, which has no I/O and no clock.
//!
//! ```
//! use am_api::Node;
//! use am_ordered::{Delivered, Group, Level, Replica, Settings};
//!
//! /// A log of lines.
//! #[derive(Default)]
//! struct Log(Vec<String>);
//!
//! impl Replica for Log {
//!     fn deliver(&mut self, message: &Delivered<'_>) {
//!         self.0.push(String::from_utf8_lossy(message.payload).into());
//!     }
//!
//!     fn save(&self) -> Vec<u8> {
//!         self.0.join("\n").into()
//!     }
//!
//!     fn restore(&mut self, state: &[u8]) {
//!         self.0 = String::from_utf8_lossy(state).lines().map(str::to_owned).collect();
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (alpha, beta) = (Node::open("alpha", "sim:34")?, Node::open("beta", "sim:34")?);
//! let mut first = Group::found(&alpha, "log", Settings::default(), Log::default())?;
//! first.send(Level::Safe, "one")?;
//! let mut second = Group::join(&beta, "log", &["alpha"], Settings::default(), Log::default())?;
//! second.send(Level::Agreed, "two")?;
//! while second.replica().0.len() < 2 || first.replica().0.len() < 2 {
//!     first.poll();
//!     second.poll();
//! }
//! assert_eq!((&first.replica().0, &second.replica().0[..]), (&second.replica().0, &["one".into(), "two".into()][..]));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod frames;
mod group;
mod health;
mod links;
mod packet;
mod parts;
mod pieces;
mod replica;
mod state;

pub use am_ordered_core::{Dissemination, Ended, Epoch, Level, Member, MemberId, Number, Place, Settings, View};
pub use group::{Counters, Group, NotLeft, SendError};
pub use replica::{Delivered, Event, MessageId, Replica, Saved, Step};
