//! Active messages.
#![forbid(unsafe_code)]

mod connect;
mod counters;
mod describe;
mod dispatch;
mod endpoint;
mod flow_event;
mod handler;
mod message;
mod names;
mod node;
mod open;
mod port;
mod reply;
mod request;
mod returned;
mod shared;

pub use connect::{ConnectError, NotOpen, Remote};
pub use counters::Counters;
pub use describe::Description;
pub use dispatch::BUDGET;
pub use endpoint::Endpoint;
pub use engine::{Clock, Hand, Idle, PinError, pin};
pub use flow_event::{FlowChange, FlowEvent};
pub use handler::Handler;
pub use message::Message;
pub use names::BadName;
pub use node::{EndpointError, Node};
pub use open::{Builder, OpenError};
pub use port::Port;
pub use proto::{FramingWhy, Peer, ReturnReason, WINDOW};
pub use reply::{ReplyError, Token};
pub use request::RequestError;
pub use returned::Returned;
pub use transport::Transport;
pub use wire::control::{Incarnation, Name, NodeId, Refusal};
pub use wire::{Address, Class, EtherType, Framing};
