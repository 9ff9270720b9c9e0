//! **What happens to a frame.** The sans-IO core: Fast Messages' queues, credits, acknowledgements and return to sender,
//! as a state machine without I/O, clock or threads. Frames and the time come in as arguments. Frames to send, messages
//! and events come out of the outputs.
//!
//! ```text
//!     from above                                        outputs, to above
//!  connect  send  release  decline_reply    poll_deliver  poll_returned  poll_event
//!     │      │       │       │                    ▲            ▲             ▲
//! ┌───▼──────▼───────▼───────▼────────────────────┴────────────┴─────────────┴───┐
//! │  setup   send_queue ◀── credits ◀── receive_queue      teardown              │
//! │  probe   slots (kept until            endpoint (accepted,                    │
//! │          acknowledged)                waiting to be extracted)               │
//! │     │      │  ▲   resend                      ▲                              │
//! │     │      │  ├─── timeout, input (acks) ─────┤                              │
//! │     │      │  └─── reject_queue ◀── rejects ──┤ no room: bounce              │
//! └─────┼──────┼──────────────────────────────────┼──────────────────────────────┘
//!       ▼      ▼                                  │
//!  transmit  poll_command       on_frame  run_deferred  on_timeout(now)
//!     outputs, to below                       from below
//! ```
//!
//! The files call down only:
//!
//! ```text
//!  input  transmit  timeout  start                          from outside
//!  keepalive  probe_answers  discovery  members  close      peers
//!  resend  not_polling  setup  group  name_conflict         flows
//!  probe  beacon  teardown
//!  refusals  send  deferred  loss_detection  rejects        each message
//!  accept  emit  endpoint  slots, queues, flow
//! ```
//!
//! Read first: [`Core`], for the order of calls; then `send_queue.rs`, `receive_queue.rs` and `reject_queue.rs`, whose
//! pages say what pushes, what pops, what bounds the queue and what happens when it is full; then `transmit.rs`, where
//! frames are written. FM 1.0 is Pakin, Lauria, Chien, SC'95; AM-II is Chun, Mainwaring, Culler, 1998.
#![forbid(unsafe_code)]

mod accept;
mod address_conflict;
mod beacon;
mod close;
mod config;
mod control_queue;
mod counters;
mod credits;
mod deferred;
mod discovery;
mod emit;
mod endpoint;
mod fair_share;
mod flow;
mod flows;
mod gaps;
mod group;
mod group_frames;
mod group_queue;
mod handler_set;
mod idle_flows;
mod input;
mod keepalive;
mod loss_detection;
mod members;
#[doc(hidden)]
pub mod mutants;
mod name_conflict;
mod node;
mod not_polling;
mod output;
mod peers;
mod presence;
mod probe;
mod probe_answers;
mod rate_limit;
mod receive_queue;
mod refusals;
mod reject_queue;
mod rejects;
mod reordering;
mod resend;
mod rtt;
mod search;
mod segment_key;
mod send;
mod send_queue;
mod senders;
mod setup;
mod signs_of_life;
mod slots;
mod start;
mod statistics;
mod teardown;
mod time;
mod timeout;
mod transmit;
mod unknown_flows;
mod warm;
mod window_probe;

pub use config::{ChooseMember, Config, FramingChoice};
pub use counters::Counters;
pub use node::Core;
pub use output::{
    Command, Delivery, Departure, Event, FORKED, Fate, FlowEnd, FlowState, FramingWhy, Member, MemberChange,
    MessageNumber, NameConflict, Peer, ReturnReason, Returned, Transmit, Transmitted, Words,
};
pub use peers::MAX_PEERS;
pub use segment_key::SegmentKey;
pub use send::SendError;
pub use setup::ConnectError;
pub use statistics::FlowStatistics;
pub use teardown::EndpointError;
pub use time::Time;

use am_wire::Flow;

/// The most messages of a flow and class in flight at once.
pub const WINDOW: usize = 512;

/// An endpoint of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointId(pub(crate) u16);

impl EndpointId {
    /// A small number. Once this endpoint is closed, another one may get it.
    pub fn index(self) -> usize {
        self.0.into()
    }

    /// The id of no endpoint.
    pub(crate) const NONE: EndpointId = EndpointId(u16::MAX);
}

/// A flow of this node: the flow id that this node chose, and a nonce that distinguishes the uses of the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId {
    pub(crate) flow: Flow,
    pub(crate) nonce: u16,
}

impl FlowId {
    /// The flow id that frames to this node carry.
    pub const fn flow(self) -> Flow {
        self.flow
    }
}
