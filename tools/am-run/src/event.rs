//! What the launcher's threads tell its main thread.

use crate::protocol::FromAgent;

/// What the launcher reacts to.
#[derive(Debug)]
pub(crate) enum Event {
    /// This agent runs.
    Ready(usize),
    /// The command that was to start this agent did not.
    NoAgent(usize, String),
    /// An agent said this.
    Said(usize, FromAgent),
    /// An agent's pipe has ended.
    Gone(usize),
    /// Standard output or standard error takes nothing more: why.
    NoOutput(std::io::Error),
    /// A signal arrived.
    Signal(i32),
    /// Input arrived; none means its end.
    Input(Vec<u8>),
}
