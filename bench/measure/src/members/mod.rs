//! The processes of a group: where each runs, how the bench leads them, and the node that one opens. What `ordered` and `objects` share.
//!
//! ```text
//!   the bench                                   each member
//!     Place ─▶ Seat ─▶ Process::start ─────────▶ serve
//!     Process::order ─── lines of JSON ────────▶ Led::next ─▶ what the order asks for, or another turn
//!     Process::expect ◀─ lines of JSON ───────── answer
//! ```

mod conditions;
mod led;
mod missing;
mod place;
mod process;
mod seat;

use std::time::Duration;

pub use conditions::Conditions;
pub use led::{Led, Said, answer, serve};
pub use missing::Missing;
pub use place::{Place, usable_cores};
pub use process::{Process, end, member};
pub use seat::{LONG, Seat, clock, name};

/// The most members that are processes of this machine.
pub const MOST_PROCESSES: usize = 16;
/// Longer than anything here takes when nothing is wrong.
pub const LIMIT: Duration = Duration::from_secs(20);
/// The longest wait without a look at orders.
pub const LOOK: Duration = Duration::from_millis(1);
