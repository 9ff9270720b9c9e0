//! Nodes on threads of their own, and other threads that call, send, reply and run handlers.

mod bounds;
mod calls;
mod common;
mod examples;
mod no_allocation;
mod shared;
mod tokens;
mod transfers;
