//! What a type implements to be an argument or a result.

use super::error::{DecodeError, EncodeError};
use super::reader::Reader;
use super::writer::{Writer, write_into};

/// Written into a frame.
///
/// `#[derive(Wire)]` writes it for a type of your own.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be written into a message",
    note = "a type of your own: `#[derive(am_rpc::Wire)]`; a type with serde's traits: `am_rpc::codec::Serde`",
    note = "instead of `usize` and `isize`, which differ between machines: `u64` and `i64`"
)]
pub trait Encode {
    /// Whether `encode` always writes the bytes that `size` says. Not so is a type that contains itself, because a value may have too many levels,
    /// or one of which you do not know. A value of such a type is written into memory of its own first, and leaves only if it was written.
    const IS_SURE: bool = false;

    /// Exactly the bytes that `encode` writes. The caller asks first, so that the message's length is known before a byte is written.
    fn size(&self) -> usize;

    /// Writes the value.
    fn encode(&self, to: &mut Writer<'_>);

    /// The bytes of several. (Numbers need not look at each.)
    #[doc(hidden)]
    #[inline]
    fn size_of_slice(items: &[Self]) -> usize
    where
        Self: Sized,
    {
        items.iter().map(Self::size).sum()
    }

    /// Writes several. (Numbers are copied at once.)
    #[doc(hidden)]
    #[inline]
    fn encode_slice(items: &[Self], to: &mut Writer<'_>)
    where
        Self: Sized,
    {
        items.iter().for_each(|item| item.encode(to));
    }
}

/// Read from a frame, from which it may borrow. The bytes of a peer are never trusted.
///
/// `#[derive(Wire)]` writes it for a type of your own.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from a message",
    note = "a type of your own: `#[derive(am_rpc::Wire)]`; a type with serde's traits: `am_rpc::codec::Serde`",
    note = "borrowed from the frame can be `&str`, `&[u8]` and `am_rpc::codec::Plain`; instead of `&[T]` say `Vec<T>`",
    note = "instead of `usize` and `isize`, which differ between machines: `u64` and `i64`"
)]
pub trait Decode<'a>: Sized {
    /// The fewest bytes that a value takes. A collection looks at it before it believes a length. Zero if you do not know; then there are
    /// no collections of it.
    const MIN_SIZE: usize;

    /// Reads a value.
    ///
    /// # Errors
    /// When the bytes are no value of this type.
    fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError>;

    /// Reads several. (Numbers are copied at once.)
    #[doc(hidden)]
    fn decode_vec(from: &mut Reader<'a>, count: usize) -> Result<Vec<Self>, DecodeError> {
        let mut items = Vec::with_capacity(prepared::<Self>(from, count));
        for _ in 0..count {
            items.push(Self::decode(from)?);
        }
        Ok(items)
    }

    /// Reads as many as the array has. (Numbers are copied at once.)
    #[doc(hidden)]
    #[inline]
    fn decode_array<const N: usize>(from: &mut Reader<'a>) -> Result<[Self; N], DecodeError> {
        let mut failed = None;
        let items = std::array::from_fn(|_| match failed {
            None => Self::decode(from).map_err(|error| failed = Some(error)).ok(),
            Some(_) => None,
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(items.map(|item| item.expect("each was read"))),
        }
    }
}

/// A number that changes when the layout of the type changes: names of fields and variants and their types, in order. Types with one
/// layout have one number: a `&str` is sent, and a `String` received.
///
/// `#[derive(Wire)]` writes it for a type of your own.
#[diagnostic::on_unimplemented(
    message = "the layout of `{Self}` in a message is not known",
    note = "a type of your own: `#[derive(am_rpc::Wire)]`; a type with serde's traits: `am_rpc::codec::Serde`",
    note = "instead of `usize` and `isize`, which differ between machines: `u64` and `i64`"
)]
pub trait Schema {
    /// The number. [`Layout`](super::Layout) makes one.
    const SCHEMA: u64;
}

/// How many elements to allocate for at once. A peer's claim is bounded by the smallest encoding, which may be much smaller than the
/// element in memory. So no more is allocated in advance than four times the bytes that are left.
#[inline]
pub(super) fn prepared<T>(from: &Reader<'_>, count: usize) -> usize {
    count.min(4 * from.left() / size_of::<T>().max(1))
}

/// How many elements follow. It refuses to compile for elements that take no bytes: a message of four bytes could claim four billion.
#[inline]
pub(super) fn count<'a, T: Decode<'a>>(from: &mut Reader<'a>) -> Result<usize, DecodeError> {
    const {
        assert!(T::MIN_SIZE > 0, "a collection of elements that take no bytes: send their number instead");
    }
    from.count(T::MIN_SIZE)
}

/// The value in bytes of its own. (A call writes into a frame instead.)
///
/// # Errors
/// See [`EncodeError`].
pub fn to_vec(value: &(impl Encode + ?Sized)) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = vec![0; value.size()];
    write_into(&mut bytes, |to| value.encode(to))?;
    Ok(bytes)
}

/// The same, where values that are equal become equal bytes: entries of a `HashMap` or a `HashSet` are written in the order of their bytes. For a digest, or to
/// compare.
///
/// # Errors
/// See [`EncodeError`].
pub fn to_canonical_vec(value: &(impl Encode + ?Sized)) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = vec![0; value.size()];
    let mut writer = Writer::canonical(&mut bytes);
    value.encode(&mut writer);
    writer.finish()?;
    Ok(bytes)
}

/// The value that these bytes are, all of them.
///
/// # Errors
/// See [`DecodeError`].
#[inline]
pub fn from_bytes<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    let mut reader = Reader::new(bytes);
    let value = T::decode(&mut reader)?;
    reader.finish()?;
    Ok(value)
}
