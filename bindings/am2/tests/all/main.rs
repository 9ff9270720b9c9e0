//! C programs against the library.

#[path = "../program/mod.rs"]
mod program;

mod c;
mod header;
mod installed;
