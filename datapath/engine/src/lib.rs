//! **One turn of the loop.** The protocol, which knows nothing of devices, and
//! the transport, which knows nothing of the protocol, meet here and nowhere else.
//!
//! ```text
//!            core.send, core.connect, ...         core.poll_deliver, poll_event, ...
//!                      │      the caller, between the halves  ▲
//!            ┌─────────▼───────────────────────────────────────┴────────┐
//!            │                       am_proto::Core                        │
//!            └──▲───────────────────┬──────────────┬──────────────▲─────┘
//!      on_frame │      poll_command │     transmit │       settle │ on_timeout
//!   ┌───────────┴───────────┐   ┌───▼──────────────▼──────────────┴─────┐
//!   │ inhale: a burst of    │   │ exhale: steering first, then a burst  │
//!   │ frames in; where there│   │ out, one doorbell, and after it the   │
//!   │ is none, the clock    │   │ clock and all that could wait         │
//!   └───────────▲───────────┘   └───┬──────────────┬────────────────────┘
//!       receive │           control │         send │ flush
//!            ┌──┴───────────────────▼──────────────▼────────────────────┐
//!            │                   am_transport::Transport                   │
//!            └──────────────────────────────────────────────────────────┘
//! ```
//!
//! Read first: [`Engine::turn`], which is the whole of it. Then [`Idle`]: what
//! a thread does when a turn has found nothing. [`Clock`] is read once a turn,
//! [`pin`] keeps the thread where its caches are, [`incarnation`] tells this
//! run of a node from its last.
//!
//! Nothing here is generic over the transport but the calls that take one, so
//! that a node can be given any of them at run time.
#![forbid(unsafe_code)]

mod clock;
mod idle;
mod pin;
mod turn;

pub use clock::{Clock, Hand, incarnation};
pub use idle::Idle;
pub use pin::{PinError, pin};
pub use turn::{BURST, Engine, Look, Turn};
