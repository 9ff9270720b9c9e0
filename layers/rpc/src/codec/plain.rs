//! Plain data: read where it lies in the frame.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::error::DecodeError;
use super::layout::Layout;
use super::reader::Reader;
use super::traits::{Decode, Encode, Schema};
use super::writer::Writer;

#[cfg(target_endian = "big")]
compile_error!("plain data is sent as it lies in memory, which is little endian");

/// Plain data, or a slice of it, borrowed from the frame where that is possible: `Plain<'a, Point>`, `Plain<'a, [f64]>`.
///
/// Plain is what zerocopy's traits say of a type: any bytes are a value, and none of them are padding. It is sent as it lies in memory. A
/// frame's payload may begin at any address. So the data is borrowed where it happens to be aligned, and copied, at once, where it is not. A
/// type that needs no alignment (`zerocopy::Unaligned`), such as one of bytes and of `zerocopy::little_endian` numbers, is always borrowed.
///
/// ```
/// use am_rpc::codec::{Plain, from_bytes, to_vec};
/// use zerocopy::little_endian::F64;
///
/// let data = [F64::new(0.5), F64::new(2.0)];
/// let frame = to_vec(&Plain::from(&data[..]))?;
/// let received: Plain<'_, [F64]> = from_bytes(&frame)?;
/// assert_eq!(received.iter().map(|x| x.get()).sum::<f64>(), 2.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Plain<'a, T: ToOwned + ?Sized>(pub Cow<'a, T>);

impl<T: ToOwned + ?Sized> Deref for Plain<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<'a, T: ToOwned + ?Sized> From<&'a T> for Plain<'a, T> {
    fn from(data: &'a T) -> Self {
        Plain(Cow::Borrowed(data))
    }
}

impl<T: ToOwned + fmt::Debug + ?Sized> fmt::Debug for Plain<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ToOwned + PartialEq + ?Sized> PartialEq for Plain<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Schema + Clone> Schema for Plain<'_, T> {
    const SCHEMA: u64 = Layout::new("plain").part(T::SCHEMA).finish();
}

impl<T: IntoBytes + Immutable + Clone> Encode for Plain<'_, T> {
    const IS_SURE: bool = true;

    #[inline]
    fn size(&self) -> usize {
        size_of::<T>()
    }

    #[inline]
    fn encode(&self, to: &mut Writer<'_>) {
        to.bytes((**self).as_bytes());
    }
}

impl<'a, T: FromBytes + KnownLayout + Immutable + Clone> Decode<'a> for Plain<'a, T> {
    const MIN_SIZE: usize = size_of::<T>();

    #[inline]
    fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let bytes = from.bytes(size_of::<T>())?;
        let borrowed = T::ref_from_bytes(bytes).map(Cow::Borrowed);
        let data = borrowed.or_else(|_| T::read_from_bytes(bytes).map(Cow::Owned));
        data.map(Plain).map_err(|_| DecodeError::Short { need: size_of::<T>(), left: bytes.len() })
    }
}

impl<T: Schema + Clone> Schema for Plain<'_, [T]> {
    const SCHEMA: u64 = Layout::new("plain list").part(T::SCHEMA).finish();
}

impl<T: IntoBytes + Immutable + Clone> Encode for Plain<'_, [T]> {
    const IS_SURE: bool = true;

    #[inline]
    fn size(&self) -> usize {
        4 + size_of_val(&**self)
    }

    #[inline]
    fn encode(&self, to: &mut Writer<'_>) {
        to.count(self.len());
        to.bytes((**self).as_bytes());
    }
}

impl<'a, T: FromBytes + IntoBytes + Immutable + Clone> Decode<'a> for Plain<'a, [T]> {
    const MIN_SIZE: usize = 4;

    #[inline]
    fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let count = from.count(size_of::<T>())?;
        let bytes = from.bytes(count * size_of::<T>())?;
        if let Ok(data) = <[T]>::ref_from_bytes(bytes) {
            return Ok(Plain(Cow::Borrowed(data)));
        }
        let mut data = T::new_vec_zeroed(count).map_err(|_| DecodeError::Length { count, left: bytes.len() })?;
        data.as_mut_slice().as_mut_bytes().copy_from_slice(bytes);
        Ok(Plain(Cow::Owned(data)))
    }
}
