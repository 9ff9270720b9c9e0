//! C programs on two hosts. Needs root.

#[path = "../program/mod.rs"]
mod program;

mod c;
