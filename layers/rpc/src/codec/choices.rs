//! `Option` and `Result`: a byte says which, as for any enum.

use super::error::DecodeError;
use super::layout::Layout;
use super::reader::Reader;
use super::traits::{Decode, Encode, Schema};
use super::writer::Writer;

impl<T: Schema> Schema for Option<T> {
    const SCHEMA: u64 = Layout::new("option").part(T::SCHEMA).finish();
}

impl<T: Encode> Encode for Option<T> {
    const IS_SURE: bool = T::IS_SURE;

    #[inline]
    fn size(&self) -> usize {
        1 + self.as_ref().map_or(0, T::size)
    }

    #[inline]
    fn encode(&self, to: &mut Writer<'_>) {
        to.array([u8::from(self.is_some())]);
        if let Some(value) = self {
            value.encode(to);
        }
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    const MIN_SIZE: usize = 1;

    #[inline]
    fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match from.tag()? {
            0 => Ok(None),
            1 => T::decode(from).map(Some),
            tag => Err(DecodeError::Variant { of: "Option", tag }),
        }
    }
}

impl<T: Schema, E: Schema> Schema for Result<T, E> {
    const SCHEMA: u64 = Layout::new("result").part(T::SCHEMA).part(E::SCHEMA).finish();
}

impl<T: Encode, E: Encode> Encode for Result<T, E> {
    const IS_SURE: bool = T::IS_SURE && E::IS_SURE;

    #[inline]
    fn size(&self) -> usize {
        1 + self.as_ref().map_or_else(E::size, T::size)
    }

    #[inline]
    fn encode(&self, to: &mut Writer<'_>) {
        to.array([u8::from(self.is_err())]);
        match self {
            Ok(value) => value.encode(to),
            Err(error) => error.encode(to),
        }
    }
}

impl<'a, T: Decode<'a>, E: Decode<'a>> Decode<'a> for Result<T, E> {
    const MIN_SIZE: usize = 1;

    #[inline]
    fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match from.tag()? {
            0 => T::decode(from).map(Ok),
            1 => E::decode(from).map(Err),
            tag => Err(DecodeError::Variant { of: "Result", tag }),
        }
    }
}
