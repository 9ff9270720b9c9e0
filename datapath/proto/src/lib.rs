//! skeleton of the interface; being filled in.
#![forbid(unsafe_code)]
#![allow(missing_docs, unused_variables, dead_code)]

mod config;
mod output;
mod time;

pub use config::{Config, FramingChoice};
pub use output::*;
pub use time::Time;
use wire::control::{Name, Refusal};
use wire::{Address, Buffer, Class, Flow, Framing, Reason};

/// The most messages of a flow and class on their way at once.
pub const WINDOW: usize = 512;

/// An endpoint of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointId(pub(crate) u16);

/// A flow of this node: its own flow id, and which use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId {
    pub(crate) flow: Flow,
    pub(crate) nonce: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("this node has an endpoint named `{0}` already; choose another name or close the first")]
    Taken(Name),
    #[error("this node has all the endpoints it can have")]
    TooMany,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    #[error("no flow id is left on this node: close flows that are no longer used")]
    NoFlow,
    #[error("no such endpoint on this node")]
    NoEndpoint,
}

/// Why a message was not admitted. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    #[error("no credit now: the receiver has not made room yet; poll, then try again")]
    NoCredit,
    #[error("all {0} send frames of this node are waiting to be acknowledged; poll, then try again")]
    Full(usize),
    #[error("the flow is not open yet; poll until it is")]
    Connecting,
    #[error("the flow is dead: {0}")]
    Dead(ReturnReason),
    #[error("the peer refused the flow")]
    Refused(Refusal),
    #[error("no such flow")]
    Unknown,
    #[error("{needs} bytes of words and payload, but this flow carries at most {most} in one message")]
    TooLarge { needs: usize, most: usize },
}

/// Everything counted, readable at any time.
#[derive(Clone, Debug, Default)]
pub struct Counters { /* grows */ }

impl Counters {
    /// Name and value of each.
    pub fn each(&self, f: &mut dyn FnMut(&'static str, u64)) { todo!() }
}

/// The sans-IO core of one node. `B` is the memory of a frame.
///
/// Calls come in four classes. **Getters** change nothing. **From below**:
/// `on_frame`, `on_timeout`. **From above**: `endpoint`, `connect`, `send`,
/// `forgo`, `release`, ... **Outputs**: `poll_*`. Any number of inputs at the same
/// `now`, then drain the outputs.
pub struct Core<B> { _b: Vec<B> }

impl<B: Buffer> Core<B> {
    pub fn new(config: Config, now: Time) -> Self { todo!() }

    // getters
    pub fn config(&self) -> &Config { todo!() }
    pub fn state(&self, flow: FlowId) -> FlowState { todo!() }
    /// node name and endpoint name at the other side
    pub fn remote(&self, flow: FlowId) -> Option<(Name, Name)> { todo!() }
    pub fn peers(&self) -> impl Iterator<Item = &Peer> { [].iter() }
    pub fn counters(&self) -> &Counters { todo!() }
    /// When `on_timeout` wants to be called at the latest.
    pub fn sleep_until(&self) -> Time { todo!() }
    /// Where in a fresh frame the body (words, then payload) is to be written for this flow, and how
    /// much there is room for; or why nothing can be sent now. Getter: takes nothing.
    pub fn admits(&self, flow: FlowId, class: Class, body: usize) -> Result<usize, SendError> { todo!() }

    // from below
    pub fn on_frame(&mut self, now: Time, frame: B) { todo!() }
    pub fn on_timeout(&mut self, now: Time) { todo!() }

    // from above
    pub fn endpoint(&mut self, name: Name, tag: u64) -> Result<EndpointId, EndpointError> { todo!() }
    /// Flows made with another tag die (told to their peers).
    pub fn set_tag(&mut self, endpoint: EndpointId, tag: u64) { todo!() }
    pub fn close_endpoint(&mut self, endpoint: EndpointId) { todo!() }
    /// Static table: a peer known without discovery.
    pub fn add_peer(&mut self, peer: Peer) { todo!() }
    /// Ask for a flow; it is `Connecting` until `Event::Settled`.
    pub fn connect(&mut self, now: Time, from: EndpointId, node: Name, endpoint: Name, tag: u64) -> Result<FlowId, ConnectError> { todo!() }
    pub fn close(&mut self, flow: FlowId) { todo!() }
    /// Everything is told to the peers: Close on every flow. Then drain poll_transmit once more.
    pub fn shut_down(&mut self) { todo!() }
    /// Admit a message whose body (words then payload, `body` bytes) stands in `frame` at the place
    /// `admits` named. Replies are always admitted for a flow that is open.
    pub fn send(&mut self, flow: FlowId, class: Class, handler: u8, words: u8, frame: B, body: usize) -> Result<(), (SendError, B)> { todo!() }
    /// The right to reply that came with a request is not used.
    pub fn forgo(&mut self, flow: FlowId) { todo!() }
    /// A delivered message has been handled: its credit returns to the sender.
    pub fn release(&mut self, flow: FlowId, class: Class) { todo!() }

    // outputs
    /// The next frame to send. `fresh` gives an empty frame for what the core writes itself
    /// (acknowledgements, control), `None` when there is none now.
    pub fn poll_transmit(&mut self, now: Time, fresh: &mut dyn FnMut() -> Option<B>) -> Option<Transmit<B>> { todo!() }
    pub fn poll_deliver(&mut self, endpoint: EndpointId) -> Option<Delivery<B>> { todo!() }
    pub fn poll_returned(&mut self, endpoint: EndpointId) -> Option<Returned<B>> { todo!() }
    pub fn poll_event(&mut self) -> Option<Event> { todo!() }
}
