//! Fast Messages between nodes of one process.

mod common;
mod handlers;
mod no_allocation;
mod refusals;
mod streams;
