//! **Arguments and results as bytes.** They are written straight into the frame that leaves, and read in the frame that arrived.
//!
//! Orca's runtime system at first interpreted a descriptor of each operation's types. Routines that the compiler wrote for each operation
//! saved 60 µs of a call on Myrinet, and the copies that remained halved its throughput (Bal et al., 1997, §4.3 and §5.1). Here
//! `#[derive(Wire)]` writes those routines. Text and bytes are borrowed from the frame, without a copy.
//!
//! ```text
//!   Order { id: 7, item: "nut", price: None }
//!
//!    0                         8             12         15   16
//!    ┌─────────────────────────┬─────────────┬──────────┬────┐
//!    │ 07 00 00 00 00 00 00 00 │ 03 00 00 00 │ 6e 75 74 │ 00 │
//!    └─────────────────────────┴─────────────┴──────────┴────┘
//!      id                        length        item       price: none
//! ```
//!
//! ```
//! use am_rpc::codec::{Encode, Reader, Decode, Wire, Writer};
//!
//! #[derive(Debug, PartialEq, Wire)]
//! struct Order<'a> {
//!     id: u64,
//!     item: &'a str,
//!     price: Option<f64>,
//! }
//!
//! let sent = Order { id: 7, item: "nut", price: None };
//! let mut frame = [0xEE; 1500]; // With old bytes.
//! let payload = &mut frame[..sent.size()];
//! let mut writer = Writer::new(payload);
//! sent.encode(&mut writer);
//! writer.finish()?;
//! assert_eq!(frame[..17], *b"\x07\0\0\0\0\0\0\0\x03\0\0\0nut\0\xEE");
//!
//! let mut reader = Reader::new(&frame[..16]);
//! let received = Order::decode(&mut reader)?; // `received.item` is in the frame.
//! reader.finish()?;
//! assert_eq!(received, sent);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Encodings
//!
//! Little endian, without padding, without names.
//!
//! | type | bytes |
//! | --- | --- |
//! | `u8` to `u128`, `i8` to `i128`, `f32`, `f64` | its own. Not `usize`: machines differ in its size |
//! | `bool` | 1: 0 or 1 |
//! | `char` | 4 |
//! | `Duration` | 8 of seconds, 4 of nanoseconds |
//! | `()` | none |
//! | tuple (up to 12), `[T; N]`, struct | its fields, in order |
//! | `Option`, `Result`, enum | 1 for the position of the variant (at most 256 of them), then its fields. `None` and `Ok` are 0 |
//! | `&str`, `String`, `Cow<str>` | 4 of length, then UTF-8 |
//! | `&[u8]`, `Cow<[u8]>`, `Vec`, `VecDeque`, slices | 4 of length, then the elements. Numbers are copied at once |
//! | maps and sets | 4 of length, then the entries, in any order, none twice |
//! | `&T`, `Box`, `Rc`, `Arc` | those of what is behind it |
//! | [`Plain<T>`](Plain), `Plain<[T]>` | its memory; a slice after 4 of length. Borrowed where it is aligned |
//! | `Serde<T>`, with the feature `serde` | postcard's |
//!
//! A type of your own derives [`Wire`], which is [`Encode`], [`Decode`] and [`Schema`] in one. [`Schema::SCHEMA`] is a number for the layout:
//! two programs whose numbers are equal were compiled with the same fields and variants.
//!
//! # What a peer sends is not trusted
//!
//! No bytes make [`Decode`] panic, run for long, or allocate much. [`DecodeError`] says what was wrong.
//!
//! - A length is compared with the bytes that are left before anything is allocated or repeated: each element takes [`Decode::MIN_SIZE`]
//!   bytes at least. A collection of elements that take no bytes, such as `Vec<()>`, could claim four billion in four bytes, so it does not
//!   compile.
//! - Elements may be larger in memory than in the frame: a `None` takes one byte there. A message can make its receiver allocate its length
//!   times that ratio, as elements arrive, and no more than four times its length before they do.
//! - Pointers and collections within each other are read up to [`MAX_DEPTH`] levels. A level takes the stack that the type takes, so put large
//!   arrays of a recursive type into a `Box`.
//! - A value is all of the message: bytes that are left over are an error ([`Reader::finish`]).
//!
//! ```compile_fail,E0080
//! let nothings: Vec<()> = am_rpc::codec::from_bytes(&[0xFF; 4]).unwrap();
//! ```
//!
//! [`Encode`] written by hand may announce a wrong size. Then [`Writer::finish`] reports it, and no old byte of the frame is left in the
//! message: what was not written is zeros, and an excess is dropped.
//!
//! Read first: `traits.rs`, then `writer.rs` and `reader.rs`, which check everything; then a file of types, such as `sequences.rs`.

mod choices;
mod encoded;
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
pub(crate) use encoded::{Encoded, encoded, sure, writing};
pub use error::{DecodeError, EncodeError};
pub use layout::Layout;
pub use plain::Plain;
pub use reader::Reader;
#[cfg(feature = "serde")]
pub use serde::Serde;
pub use traits::{Decode, Encode, Schema, from_bytes, to_canonical_vec, to_vec};
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
