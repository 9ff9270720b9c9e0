//! The same network against the machine's clock, for nodes of one process: `sim:SEED`.
//!
//! ```text
//!   node, its thread           node, its thread
//!  ┌──────────────┐           ┌──────────────┐
//!  │ LiveNic: pool│           │ LiveNic: pool│      am_transport::Transport
//!  └──────┬───────┘           └──────┬───────┘
//!         │  take the lock, run due events  │   
//!   ╔═════╧══════════════════════════╧═════╗
//!   ║ Net<Card>, one for all of this seed  ║
//!   ╚══════════════════╤═══════════════════╝
//!                    timer: wakes sleeping nodes
//! ```
//!
//! All nodes of a process that open the same seed share one network. The first one makes it, and it ends with the last.
//! No thread drives it. Each call first runs the events that are due, each at its own virtual time, so no node can tell
//! when an event was computed. A sleeping node makes no calls. While a node sleeps, a timer is set to the next event and
//! wakes it (`network.rs`).
//!
//! Faults are drawn from the seed in the order in which frames come onto a cable. The same frames in the same order have
//! the same faults. The times at which nodes send depend on the machine, and do not repeat.

mod network;
mod settings;
mod transport;
mod waker;

pub use network::SimOpenError;
pub use settings::SimSettings;
pub use transport::{LiveNic, open};
