//! **Directed Point from C**: the calls of [`am_dp`] behind `include/dp.h`.
//!
//! ```text
//!   a C program        #include "dp.h"           cc ping.c -lamdp
//!        │  descriptors, bytes                        ▲ -1, errno, dp_error()
//!        ▼                                            │
//!   calls.rs        arguments looked at; panics stay here
//!   unix.rs         read, write, fsync and close by name; signals.rs ends a wait for room
//!   start.rs        the first call opens the process's node
//!   process.rs      the node, its endpoints by descriptor, one lock
//!   progress.rs     a thread that receives while the program does something else; pace.rs says when
//!   graph.rs        the process as a vertex of DP_GRAPH
//!   report.rs       live figures on standard error
//!   mapping.rs      the pools' memory, read-only for the program
//!        │
//!        ▼
//!   layers/dp       the calls themselves, in safe Rust
//! ```
//!
//! Read first: `include/dp.h`, which is the whole documentation for users; `examples/ping.c`; then `calls.rs`.
#![allow(unsafe_code, reason = "pointers from C")]

mod calls;
mod environment;
mod failure;
mod graph;
mod mapping;
mod pace;
mod process;
mod progress;
mod report;
mod signals;
mod start;
mod unix;
mod vertex;

pub use calls::{
    Dpmmap, Traffic, dp_barrier, dp_close, dp_connect, dp_error, dp_fsync, dp_is_point, dp_mmap, dp_nid, dp_nodes,
    dp_open, dp_open_pool, dp_read, dp_traffic, dp_write,
};
pub use graph::{dp_graph, dp_in, dp_in_degree, dp_out, dp_out_degree, dp_point, dp_vertex_name, dp_vertices};
pub use unix::{dp_unix_close, dp_unix_fsync, dp_unix_is_own, dp_unix_is_point, dp_unix_read, dp_unix_write};
