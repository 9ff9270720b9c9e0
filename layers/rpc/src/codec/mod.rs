//! Arguments and results as bytes of a frame.

mod choices;
mod error;
mod layout;
mod maps;
mod numbers;
mod plain;
mod pointers;
mod reader;
mod sequences;
#[cfg(feature = "serde")]
mod serde;
mod traits;
mod tuples;
mod writer;

pub use am_rpc_macros::Wire;
pub use error::{DecodeError, EncodeError};
pub use layout::Layout;
pub use plain::Plain;
pub use reader::Reader;
#[cfg(feature = "serde")]
pub use serde::Serde;
pub use traits::{Decode, Encode, Schema, from_bytes, to_vec};
pub use writer::Writer;

/// How many boxes and collections a value may have within each other.
pub const MAX_DEPTH: usize = 128;

/// Stands in a layout where a recursive type has itself.
#[doc(hidden)]
#[derive(Debug)]
pub enum Recursion {}

impl Schema for Recursion {
    const SCHEMA: u64 = Layout::new("recursion").finish();
}
