//! Numbers, `bool`, `char`, and times, which are numbers: little endian, without padding.

use std::time::Duration;

use zerocopy::little_endian as le;

use super::error::DecodeError;
use super::layout::Layout;
use super::reader::Reader;
use super::traits::{Decode, Encode, Schema};
use super::writer::Writer;

/// Type, name of its layout, and its conversions to bytes and back.
macro_rules! numbers {
    ($to:ident, $from:ident: $($number:ty = $name:literal),+) => {$(
        impl Schema for $number {
            const SCHEMA: u64 = Layout::new($name).finish();
        }

        impl Encode for $number {
            const IS_SURE: bool = true;

            #[inline]
            fn size(&self) -> usize {
                size_of::<Self>()
            }

            #[inline]
            fn encode(&self, to: &mut Writer<'_>) {
                to.array(self.$to());
            }

            #[inline]
            fn size_of_slice(items: &[Self]) -> usize {
                size_of_val(items)
            }

            // On a little-endian machine the compiler makes one copy of the loop.
            #[inline]
            fn encode_slice(items: &[Self], to: &mut Writer<'_>) {
                if let Some(room) = to.room(size_of_val(items)) {
                    let (places, _) = room.as_chunks_mut();
                    places.iter_mut().zip(items).for_each(|(place, item)| *place = item.$to());
                }
            }
        }

        impl<'a> Decode<'a> for $number {
            const MIN_SIZE: usize = size_of::<Self>();

            #[inline]
            fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
                from.array().map(Self::$from)
            }

            #[inline]
            fn decode_vec(from: &mut Reader<'a>, count: usize) -> Result<Vec<Self>, DecodeError> {
                let (items, _) = from.bytes(count * Self::MIN_SIZE)?.as_chunks();
                Ok(items.iter().map(|item| Self::$from(*item)).collect())
            }

            #[inline]
            fn decode_array<const N: usize>(from: &mut Reader<'a>) -> Result<[Self; N], DecodeError> {
                let (items, _) = from.bytes(N * Self::MIN_SIZE)?.as_chunks();
                Ok(std::array::from_fn(|at| Self::$from(items[at])))
            }
        }
    )+};
}

numbers!(to_le_bytes, from_le_bytes: u8 = "u8", u16 = "u16", u32 = "u32", u64 = "u64", u128 = "u128");
numbers!(to_le_bytes, from_le_bytes: i8 = "i8", i16 = "i16", i32 = "i32", i64 = "i64", i128 = "i128");
numbers!(to_le_bytes, from_le_bytes: f32 = "f32", f64 = "f64");
// What `Plain` data is made of that needs no alignment.
numbers!(to_bytes, from_bytes: le::U16 = "u16", le::U32 = "u32", le::U64 = "u64", le::U128 = "u128");
numbers!(to_bytes, from_bytes: le::I16 = "i16", le::I32 = "i32", le::I64 = "i64", le::I128 = "i128");
numbers!(to_bytes, from_bytes: le::F32 = "f32", le::F64 = "f64");

impl Schema for bool {
    const SCHEMA: u64 = Layout::new("bool").finish();
}

impl Encode for bool {
    const IS_SURE: bool = true;

    #[inline]
    fn size(&self) -> usize {
        1
    }

    #[inline]
    fn encode(&self, to: &mut Writer<'_>) {
        to.array([u8::from(*self)]);
    }
}

impl<'a> Decode<'a> for bool {
    const MIN_SIZE: usize = 1;

    #[inline]
    fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match from.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(DecodeError::Bool(other)),
        }
    }
}

impl Schema for char {
    const SCHEMA: u64 = Layout::new("char").finish();
}

impl Encode for char {
    const IS_SURE: bool = true;

    #[inline]
    fn size(&self) -> usize {
        4
    }

    #[inline]
    fn encode(&self, to: &mut Writer<'_>) {
        u32::from(*self).encode(to);
    }
}

impl<'a> Decode<'a> for char {
    const MIN_SIZE: usize = 4;

    #[inline]
    fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let number = u32::decode(from)?;
        char::from_u32(number).ok_or(DecodeError::Char(number))
    }
}

impl Schema for Duration {
    const SCHEMA: u64 = Layout::new("duration").finish();
}

impl Encode for Duration {
    const IS_SURE: bool = true;

    #[inline]
    fn size(&self) -> usize {
        12
    }

    #[inline]
    fn encode(&self, to: &mut Writer<'_>) {
        self.as_secs().encode(to);
        self.subsec_nanos().encode(to);
    }
}

impl<'a> Decode<'a> for Duration {
    const MIN_SIZE: usize = 12;

    #[inline]
    fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match (u64::decode(from)?, u32::decode(from)?) {
            (seconds, nanos @ ..=999_999_999) => Ok(Duration::new(seconds, nanos)),
            _ => Err(DecodeError::Invalid("duration: its second has a thousand million nanoseconds or more")),
        }
    }
}
