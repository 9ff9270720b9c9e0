//! **What happens to a frame.** The sans-IO core: Fast Messages' queues,
//! credits, acknowledgements and return-to-sender, as a state machine without
//! I/O, clock or threads. Bytes and the time come in as arguments, what to do
//! comes out of `poll_*`.
//!
//! ```text
//!     from above                                        outputs, to above
//!  connect  send  release  forgo            poll_deliver  poll_returned  poll_event
//!     │      │       │       │                    ▲            ▲             ▲
//! ┌───▼──────▼───────▼───────▼────────────────────┴────────────┴─────────────┴───┐
//! │  setup   send_queue ◀── credits ◀── receive_queue      ending                │
//! │  probe   slots (kept until            endpoint (accepted,                    │
//! │          acknowledged)                waiting to be extracted)               │
//! │     │      │  ▲   resend                      ▲                              │
//! │     │      │  ├─── timeout, input (acks) ─────┤                              │
//! │     │      │  └─── reject_queue ◀── rejects ──┤ no room: bounce              │
//! └─────┼──────┼──────────────────────────────────┼──────────────────────────────┘
//!       ▼      ▼                                  │
//!  transmit  poll_command       on_frame  settle(now)  on_timeout(now)
//!     outputs, to below                       from below
//! ```
//!
//! Read first: [`Core`], for the order of calls; `send_queue.rs`,
//! `receive_queue.rs` and `reject_queue.rs`, each headed by who pushes, who pops, what bounds it and
//! what happens when it is full; `send.rs`, where frames are written.
//! FM 1.0 is Pakin, Lauria, Chien, SC'95; AM-II is Chun, Mainwaring, Culler, 1998.
#![forbid(unsafe_code)]

mod bounce;
mod bundle;
mod claims;
mod climb;
mod config;
mod contest;
mod control_queue;
mod counters;
mod credits;
mod discovery;
mod ending;
mod endpoint;
mod flow;
mod flows;
mod gaps;
mod held;
mod input;
mod leaving;
mod node;
mod order;
mod output;
mod path;
mod peers;
#[doc(hidden)]
pub mod planted;
mod probe;
mod quiet;
mod receive_queue;
mod reject_queue;
mod rejects;
mod reorder;
mod rtt;
mod send;
mod send_queue;
mod settle;
mod setup;
mod share;
mod slots;
mod sparing;
mod time;
mod timeout;
mod timers;
mod transmit;
mod unbundle;
mod unknown_flows;
mod vigil;

pub use config::{Config, FramingChoice};
pub use counters::Counters;
pub use ending::EndpointError;
pub use node::Core;
pub use output::{
    Command, Contest, Delivery, Ending, Event, Fate, FlowState, FramingWhy, Peer, ReturnReason, Returned, Transmit,
    Words,
};
pub use send::SendError;
pub use setup::ConnectError;
pub use time::Time;

use am_wire::Flow;

/// The most messages of a flow and class on their way at once.
pub const WINDOW: usize = 512;

/// An endpoint of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointId(pub(crate) u16);

impl EndpointId {
    /// No endpoint has it.
    pub(crate) const NONE: EndpointId = EndpointId(u16::MAX);
}

/// A flow of this node: the flow id that it chose, and which use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId {
    pub(crate) flow: Flow,
    pub(crate) nonce: u16,
}

impl FlowId {
    /// The flow id in frames to this node.
    pub const fn flow(self) -> Flow {
        self.flow
    }
}
