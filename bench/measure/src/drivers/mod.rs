//! The drivers: each makes a [`Channel`](crate::channel::Channel) of something that carries messages.

pub mod am;
pub mod cacheline;
pub mod dp;
pub mod dpdk;
pub mod lossy;
pub mod queues;
pub mod raw;
pub mod sleeping;
pub mod tcp;
mod transfers;
pub mod udp;
mod udp_batch;

#[cfg(test)]
mod tests;
