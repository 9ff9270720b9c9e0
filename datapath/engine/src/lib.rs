//! **One turn of the loop.** The protocol knows nothing of devices, and the transport knows nothing of the protocol. They
//! meet only here.
//!
//! ```text
//!            core.send, core.connect, ...         core.poll_deliver, poll_event, ...
//!                      │      the caller, between the halves  ▲
//!            ┌─────────▼───────────────────────────────────────┴────────┐
//!            │                       am_proto::Core                        │
//!            └──▲───────────────────┬──────────────┬──────────────▲─────┘
//!      on_frame │      poll_command │     transmit │ run_deferred │ on_timeout
//!   ┌───────────┴───────────┐   ┌───▼──────────────▼──────────────┴─────┐
//!   │ inhale: a burst of    │   │ exhale: steering first, then a burst  │
//!   │ frames in; without any│   │ out, one doorbell, and after it the   │
//!   │ frame, the clock      │   │ clock and the deferred work           │
//!   └───────────▲───────────┘   └───┬──────────────┬────────────────────┘
//!       receive │           control │         send │ flush
//!            ┌──┴───────────────────▼──────────────▼────────────────────┐
//!            │                   am_transport::Transport                   │
//!            └──────────────────────────────────────────────────────────┘
//! ```
//!
//! Read first: [`Engine::turn`] is the whole loop. [`Idle`] is how a thread waits after a turn that had nothing to do. A turn
//! reads [`Clock`] once. [`pin()`] keeps the thread on its core, with its caches. [`incarnation`] numbers the runs of a node.
//!
//! Only the calls that take a transport are generic over it, so a program can choose a node's transport at run time.
#![forbid(unsafe_code)]

mod clock;
mod heartbeat;
mod idle;
mod turn;

pub use clock::{Clock, ManualClock, incarnation};
pub use idle::{Idle, MAX_SLEEP, PinError, pin};
pub use turn::{BURST, Engine, PollScope, Turn};
