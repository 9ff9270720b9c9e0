//! Text, bytes and sequences: their length, then their elements.

use std::collections::VecDeque;

use super::error::DecodeError;
use super::layout::Layout;
use super::reader::Reader;
use super::traits::{Decode, Encode, Schema, count};
use super::writer::Writer;

impl Schema for str {
    const SCHEMA: u64 = Layout::new("str").finish();
}

impl Encode for str {
    const IS_SURE: bool = true;

    #[inline]
    fn size(&self) -> usize {
        4 + self.len()
    }

    #[inline]
    fn encode(&self, to: &mut Writer<'_>) {
        to.count(self.len());
        to.bytes(self.as_bytes());
    }
}

impl<'a> Decode<'a> for &'a str {
    const MIN_SIZE: usize = 4;

    #[inline]
    fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        std::str::from_utf8(Decode::decode(from)?).map_err(|error| DecodeError::Utf8(error.valid_up_to()))
    }
}

impl Schema for String {
    const SCHEMA: u64 = str::SCHEMA;
}

impl Encode for String {
    const IS_SURE: bool = true;

    #[inline]
    fn size(&self) -> usize {
        self.as_str().size()
    }

    #[inline]
    fn encode(&self, to: &mut Writer<'_>) {
        self.as_str().encode(to);
    }
}

impl<'a> Decode<'a> for String {
    const MIN_SIZE: usize = 4;

    #[inline]
    fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        <&str>::decode(from).map(Self::from)
    }
}

impl<T: Schema> Schema for [T] {
    const SCHEMA: u64 = Layout::new("list").part(T::SCHEMA).finish();
}

impl<T: Encode> Encode for [T] {
    const IS_SURE: bool = T::IS_SURE;

    #[inline]
    fn size(&self) -> usize {
        4 + T::size_of_slice(self)
    }

    #[inline]
    fn encode(&self, to: &mut Writer<'_>) {
        to.count(self.len());
        to.nested(|to| T::encode_slice(self, to));
    }
}

impl<'a> Decode<'a> for &'a [u8] {
    const MIN_SIZE: usize = 4;

    #[inline]
    fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let count = from.count(1)?;
        from.bytes(count)
    }
}

impl<T: Schema> Schema for Vec<T> {
    const SCHEMA: u64 = <[T]>::SCHEMA;
}

impl<T: Encode> Encode for Vec<T> {
    const IS_SURE: bool = T::IS_SURE;

    #[inline]
    fn size(&self) -> usize {
        self.as_slice().size()
    }

    #[inline]
    fn encode(&self, to: &mut Writer<'_>) {
        self.as_slice().encode(to);
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Vec<T> {
    const MIN_SIZE: usize = 4;

    #[inline]
    fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let count = count::<T>(from)?;
        from.nested(|from| T::decode_vec(from, count))
    }
}

impl<T: Schema> Schema for VecDeque<T> {
    const SCHEMA: u64 = <[T]>::SCHEMA;
}

impl<T: Encode> Encode for VecDeque<T> {
    const IS_SURE: bool = T::IS_SURE;

    #[inline]
    fn size(&self) -> usize {
        let (front, back) = self.as_slices();
        4 + T::size_of_slice(front) + T::size_of_slice(back)
    }

    #[inline]
    fn encode(&self, to: &mut Writer<'_>) {
        let (front, back) = self.as_slices();
        to.count(self.len());
        to.nested(|to| {
            T::encode_slice(front, to);
            T::encode_slice(back, to);
        });
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for VecDeque<T> {
    const MIN_SIZE: usize = 4;

    #[inline]
    fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Vec::decode(from).map(Self::from)
    }
}
