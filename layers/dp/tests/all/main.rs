//! Graphs of several nodes in one thread, on a simulated network that loses frames.
#![forbid(unsafe_code)]

mod common;
mod descriptors;
mod edges;
mod graphs;
mod hostile;
mod long;
mod order;
