//! **PVM over active messages**: a library that is loaded before PVM's, and routes the messages between tasks.
//!
//! ```text
//!   a program of PVM's       LD_PRELOAD=libpvm_am.so program, or: pvm-am run program
//!        │  pvm_send, pvm_recv, ...
//!        ▼
//!   libpvm3.so.3             as it is installed; it calls mroute, mesg_input, pvmmcast by name
//!        │
//!        ▼
//!   calls.rs                 these names
//!   route.rs                 the way of each message
//!   agree.rs                 two tasks agree once, through PVM's own route
//!   send.rs                  the fragments of a message as active messages
//!   pair.rs                  what was agreed on with each task, and what has arrived of a message
//!   process.rs               the task's node; environment.rs: its transports, PVM_AM
//!   progress.rs              a thread that receives while the program computes
//!   pvm_route.rs             PVM's own mroute; wait.rs: a sleep on its descriptors and the node's; watch.rs: the program's sleep on them
//!   memory.rs                memory of fragments that is used again
//!   library.rs, layout.rs    PVM's functions, variables and structures, checked at load
//!   check.rs                 what `pvm-am check` asks
//!   ending.rs                the end of the machine
//! ```
//!
//! What is for the daemon goes to the daemon. A task without this library never answers an offer, and stays on PVM's own route.
//!
//! Read first: `route.rs`, from top to bottom; then `agree.rs`.
#![allow(unsafe_code, reason = "the memory and functions of a library in C")]

mod agree;
mod calls;
mod check;
mod ending;
mod environment;
mod idle;
mod layout;
mod library;
mod memory;
mod pair;
mod process;
mod progress;
mod pvm_route;
mod route;
mod send;
mod wait;
mod watch;

pub use calls::{
    da_new, da_unref, hex_inadport, mesg_input, mroute, pvm_addmhf, pvm_getfds, pvm_notify, pvmendtask, pvmmcast,
};
pub use check::PVM_AM_LIBRARY;
