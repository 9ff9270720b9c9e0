//! The same network against the machine's clock, for nodes of one process: `sim:SEED`.
//!
//! ```text
//!   node, its thread           node, its thread
//!  ┌──────────────┐           ┌──────────────┐
//!  │ Live: a pool │           │ Live: a pool │      am_transport::Transport
//!  └──────┬───────┘           └──────┬───────┘
//!         │   lock, and let happen what is due   │
//!   ╔═════╧══════════════════════════╧═════╗
//!   ║ Net<Card>, one for all of this seed  ║
//!   ╚══════════════════╤═══════════════════╝
//!                    timer: of those who sleep
//! ```
//!
//! All who open the same seed share one network; who is first makes it, and it goes with the last. No thread drives
//! it: whoever uses it lets happen first what was due before now, each event at its own time. Nobody can tell
//! when that was really computed. Only somebody who sleeps would not look: while there are such, a timer is set to what
//! happens next, and wakes them to do so (`network.rs`).
//!
//! What a fault strikes is drawn from the seed in the order in which frames come onto a cable: the same frames in the
//! same order have the same fate. When nodes send is the machine's business, and not repeated.

mod bell;
mod names;
mod network;
mod settings;
mod timer;
mod transport;
mod units;

pub use names::OpenError;
pub use settings::Settings;
pub use transport::{Live, open};

use nix::time::{ClockId, clock_gettime};

use crate::clock::Nanos;

/// The machine's clock.
fn monotonic() -> Nanos {
    // Fails only for clocks that there are not.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}
