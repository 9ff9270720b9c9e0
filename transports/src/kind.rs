//! A kind of transport.

use transport::{Name, Transport};

/// What opening one comes to.
pub(crate) type Opened = Result<Box<dyn Transport>, Box<dyn std::error::Error + Send + Sync>>;

/// A kind of transport: how it is named, and what it is.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// What stands before the colon.
    pub scheme: &'static str,
    /// A name of this kind.
    pub example: &'static str,
    /// What it is, in a line.
    pub what: &'static str,
    pub(crate) open: fn(&Name) -> Opened,
}
