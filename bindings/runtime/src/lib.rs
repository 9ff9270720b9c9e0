//! What each library for C programs needs once, whatever its calls are.
//!
//! ```text
//!   a C program
//!        │
//!   call.rs          a call: no panic leaves it
//!   last_error.rs    why it failed, in words
//!   thread_end.rs    a thread that is cancelled, or calls pthread_exit, ends with nothing of the library on its stack
//!        │
//!   the library's own calls
//!        │
//!   node_owner.rs    the process that has the node: not its forked children, and not once the program has closed its descriptors
//!   kept_place.rs    the process's place in its job, which a launcher gives it once
//!   exit.rs          what the library does when the process exits
//!   waker.rs         ends the sleep of a thread
//! ```
//!
//! Each library has a copy of its own, in its own shared object.
//!
//! Read first: `call.rs`.
#![allow(unsafe_code, reason = "the end of a thread, in C")]

mod call;
mod exit;
mod kept_place;
pub mod last_error;
mod node_owner;
pub mod thread_end;
mod waker;

pub use call::call;
pub use exit::at_exit;
pub use kept_place::KeptPlace;
pub use node_owner::NodeOwner;
pub use waker::Waker;
