//! The parts that every library for C programs needs.
//!
//! ```text
//!   a C program
//!        │
//!   call.rs          a call: no panic leaves it; the text of the last failure
//!   failure.rs       the failures of a library: a number, and a text
//!   thread_end.rs    a thread that is cancelled, or calls pthread_exit, ends with nothing of the library on its stack
//!        │
//!   the library's own calls
//!        │
//!   process.rs       the process that has the node, and its forks; its place in its job; its exit
//!   thread.rs        a thread of the library
//!   waker.rs         ends the sleep of a thread
//!   short_names.rs   what is wrong with the name of a transport
//! ```
//!
//! Each library has a copy of its own, in its own shared object.
//!
//! Read first: `call.rs`.
#![allow(unsafe_code, reason = "the end of a thread, and of the process, in C")]

mod call;
mod failure;
mod process;
mod short_names;
mod thread;
pub mod thread_end;
mod waker;

pub use call::{call, keep_error, last_error};
pub use process::{KeptPlace, NodeOwner, at_exit};
pub use short_names::{SHORT_NAMES, advice};
pub use thread::start_thread;
pub use waker::Waker;
