//! The events that the launcher's threads send to its main thread.

use crate::protocol::FromAgent;

/// An event for the launcher's main thread.
#[derive(Debug)]
pub(crate) enum Event {
    /// This agent runs.
    Ready(usize),
    /// The command that should have started this agent failed.
    NoAgent(usize, String),
    /// An agent sent this message.
    Said(usize, FromAgent),
    /// An agent's pipe has ended.
    Gone(usize),
    /// Standard output or standard error cannot be written any more, for this reason.
    NoOutput(std::io::Error),
    /// A signal arrived.
    Signal(i32),
    /// Input arrived; none means its end.
    Input(Vec<u8>),
}
