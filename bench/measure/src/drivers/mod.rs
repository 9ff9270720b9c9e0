//! The drivers: each makes a `Channel` of something that carries messages.

pub(crate) mod am;
pub(crate) mod cacheline;
pub(crate) mod dp;
mod lossy;
pub(crate) mod queues;
pub(crate) mod raw;
pub(crate) mod sleeping;
pub(crate) mod tcp;
mod transfers;
pub(crate) mod udp;
mod udp_batch;

pub use am::{facility, node};
pub use dp::Vertex;
pub use tcp::IP_TCP_HEADERS;

#[cfg(test)]
mod tests;
