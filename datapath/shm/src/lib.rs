//! **Shared memory between processes of one host.** All processes that open the same `shm:NAME` are on one link, as on
//! a small switch. Each of them is a *member* of the link. They may join and leave at any time.
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
//! Each member has a lane to each other member, and is its only writer ([`am_ring::lane`]). A receiver polls the cache line
//! into which the next frame will be written, and a small frame fits that line. A member copies each frame out before it
//! reads the frame's content, because other processes can change bytes in the segment ([decision
//! 30](../../../docs/decisions/0030-copy-shared-memory-before-reading.md)).
//!
//! The kernel shows which members live. Each member has a lock on the file, and the kernel releases the lock when the process
//! ends, however it ends and whatever children it has (`locks.rs`, `holder.rs`). Frames that a member sent before its end are
//! still received: a new member gets its number, lanes and FIFO only when all others have read its lanes. There are twice as
//! many numbers as members, so that a member that reads nothing does not keep new ones out. If no number is free all the same,
//! the next process waits, and after 15 s takes the number that was left first. The last member that leaves removes the file.
//! If all members were killed, the next process that opens the name makes a new file.
//!
//! Long messages and transfers need not pass the lanes: a receiver copies them from the memory of the sender's process
//! (`process.rs`, [decision 171](../../../docs/decisions/0171-the-receiver-copies-long-data-from-the-senders-memory.md)).
//!
//! # Limits
//!
//! - A frame for a member that died is lost (`shm_lost_dead`). A live member that takes nothing from its full lane for
//!   250 ms counts as stalled until it takes something. Meanwhile further frames for it are lost (`shm_lost_hung`); those in
//!   the lane wait.
//! - A process that may open the file may write anything into it, at any time. So it can destroy and forge frames, but it
//!   makes no member access memory outside of the file, panic or hang. It may also truncate the file, and then the kernel
//!   kills members that touch the missing part (SIGBUS). So give access only to processes that may kill yours anyway. By
//!   default only processes of this user have access.
//!
//! # Read first
//!
//! [`ShmOptions`]; then `link.rs`, what a member is; `send.rs` and `receive.rs`, the data path; then `join.rs`, how a process
//! joins and leaves, and `waker.rs`, how it sleeps.
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
//! // A frame of zeros has a foreign EtherType, so steering does not admit it.
//! assert_eq!(other.receive(64, &mut |_| ()), 0);
//! let mut foreign = 0;
//! other.counters(&mut |name, value| if name == "steer_pass_foreign" { foreign = value });
//! assert_eq!(foreign, 1);
//! # Ok::<(), am_shm::ShmOpenError>(())
//! ```
#![forbid(unsafe_code)]

mod errors;
mod header;
mod holder;
mod join;
mod link;
mod locks;
mod map;
mod options;
mod peer;
mod process;
mod receive;
mod segment_path;
mod send;
mod transport;
mod waker;

pub use errors::ShmOpenError;
pub use link::Shm;
pub use map::shared_lines;
pub use options::{ShmOptions, ShmOptionsError};
pub use transport::open;
