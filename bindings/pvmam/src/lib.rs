//! **PVMAM's own interface from C**: the calls that Mucci's paper lists in Appendix B, behind `include/pvmam.h`, over any transport by
//! its name.
//!
//! ```text
//!   a C program            #include "pvmam.h"          cc ping.c -lpvmam
//!        │  handles, bytes, functions                      ▲ negative numbers, am_error()
//!        ▼                                                 │
//!   calls.rs, task_calls.rs, message_calls.rs     arguments are checked; panics stay here
//!   registry.rs     the interfaces of the calling thread; handle.rs: the numbers that stand for them
//!   connect.rs      two tasks connect; send.rs: requests, which wait for room
//!   interface.rs    a node, its endpoint and its tasks
//!   current.rs      the message whose handler runs, and the right to reply to it
//!   tasks.rs        the endpoints of other tasks, by tid and by connection
//!   ids.rs          the table of address identifiers, one for the process
//!   place.rs        the address of a task as text; environment.rs: what a short transport's name stands for
//!        │
//!        ▼
//!   am-api          nodes, connections, messages of any length
//! ```
//!
//! An interface belongs to the thread that opened it. A call from another thread is an error that says so. The pointers that the program
//! has are numbers: none is ever followed, so a stale one is an error, too.
//!
//! Read first: `include/pvmam.h`, which is the whole documentation for users; `examples/ping.c`; then `task_calls.rs`.
#![allow(unsafe_code, reason = "pointers from C")]

mod arguments;
mod calls;
mod code;
mod connect;
mod current;
mod environment;
mod handle;
mod header;
mod ids;
mod interface;
mod message_calls;
mod place;
mod registry;
mod send;
mod task_calls;
mod tasks;

pub use arguments::Part;
pub use calls::{
    am_address_to_id, am_bind_address_with_id, am_bind_handler_with_id, am_error, am_error_code, am_global_init,
    am_global_shutdown, am_handler_to_id, am_id_to_address, am_init, am_shutdown, am_strerror,
};
pub use code::Code;
pub use header::{HandlerFn, Header};
pub use interface::Info;
pub use message_calls::{
    am_poll, am_reply, am_reply_vdata, am_request, am_request_ep, am_request_vdata, am_request_vdata_ep,
    am_set_returned, am_wait,
};
pub use task_calls::{
    am_accept_task, am_allocate_task, am_connect_task, am_deallocate_task, am_hostname, am_insert_task, am_remove_task,
    am_task_address,
};
