//! **Remote procedure calls** on active messages.
//!
//! Read first: [`codec`], which says how arguments and results become bytes.
#![forbid(unsafe_code)]

// The code that `#[derive(Wire)]` writes names this crate, also in this crate.
extern crate self as am_rpc;

pub mod codec;

pub use codec::{Decode, DecodeError, Encode, EncodeError, Schema, Wire};
