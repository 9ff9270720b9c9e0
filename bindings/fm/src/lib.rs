//! **Fast Messages from C**: the calls of [`am_fm`] behind `include/fm.h`, in a
//! library that opens transports by name.
//!
//! ```text
//!   a C program        #include "fm.h"           cc ping.c -lamfm
//!        │  numbers, bytes, functions                 ▲ negative numbers, FM_error()
//!        ▼                                            │
//!   calls.rs     arguments looked at; panics stay here
//!   here.rs      the node of the calling thread, the message whose handler runs
//!   place.rs     "xdp:eth1", "shm:lab", "loopback:NAME" ─▶ a transport
//!        │
//!        ▼
//!   layers/fm    the calls themselves, in safe Rust
//! ```
//!
//! A node belongs to the thread that initialised it, and is found through that
//! thread: a call from any other is an error that says so. There is nothing
//! that two threads could touch at once.
//!
//! Read first: `include/fm.h`, which is the whole documentation for users;
//! `examples/ping.c`; then `calls.rs`.
#![allow(unsafe_code, reason = "pointers from C")]
#![allow(non_snake_case, reason = "the paper's names")]

mod calls;
mod code;
mod here;
mod place;

pub use calls::{
    FM_counter, FM_error, FM_extract, FM_extract_or_wait, FM_finalize, FM_initialize, FM_meet, FM_most, FM_node,
    FM_nodes, FM_send, FM_send_4, FM_set_handler, FM_set_returned, FM_strerror,
};
pub use code::Code;
pub use here::{HandlerFn, Message};
