//! Tests that look at all processes and programs, or at what a process inherits. One at a time. Needs root.
#![allow(unsafe_code)]

#[path = "../pair/mod.rs"]
mod pair;

mod forgotten;
mod process;
