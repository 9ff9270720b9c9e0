//! Pointers: what is behind them is written and read, in their place.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use super::error::DecodeError;
use super::reader::Reader;
use super::traits::{Decode, Encode, Schema};
use super::writer::Writer;

impl<T: Schema + ?Sized> Schema for &T {
    const SCHEMA: u64 = T::SCHEMA;
}

impl<T: Encode + ?Sized> Encode for &T {
    const IS_SURE: bool = T::IS_SURE;

    #[inline]
    fn size(&self) -> usize {
        (**self).size()
    }

    #[inline]
    fn encode(&self, to: &mut Writer<'_>) {
        (**self).encode(to);
    }
}

/// A recursive type has one of these in each of its circles, or a collection: both count the levels.
macro_rules! pointers {
    ($($pointer:ident)+) => {$(
        impl<T: Schema + ?Sized> Schema for $pointer<T> {
            const SCHEMA: u64 = T::SCHEMA;
        }

        impl<T: Encode + ?Sized> Encode for $pointer<T> {
            const IS_SURE: bool = T::IS_SURE;

            #[inline]
            fn size(&self) -> usize {
                (**self).size()
            }

            #[inline]
            fn encode(&self, to: &mut Writer<'_>) {
                to.nested(|to| (**self).encode(to));
            }
        }

        impl<'a, T: Decode<'a>> Decode<'a> for $pointer<T> {
            const MIN_SIZE: usize = T::MIN_SIZE;

            #[inline]
            fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
                from.nested(T::decode).map(Self::new)
            }
        }

        impl<'a> Decode<'a> for $pointer<str> {
            const MIN_SIZE: usize = 4;

            #[inline]
            fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
                from.nested(<&str>::decode).map(Self::from)
            }
        }

        impl<'a, T: Decode<'a>> Decode<'a> for $pointer<[T]> {
            const MIN_SIZE: usize = 4;

            #[inline]
            fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
                from.nested(Vec::decode).map(Self::from)
            }
        }
    )+};
}

pointers!(Box Rc Arc);

impl<T: Schema + ToOwned + ?Sized> Schema for Cow<'_, T> {
    const SCHEMA: u64 = T::SCHEMA;
}

impl<T: Encode + ToOwned + ?Sized> Encode for Cow<'_, T> {
    const IS_SURE: bool = T::IS_SURE;

    #[inline]
    fn size(&self) -> usize {
        (**self).size()
    }

    #[inline]
    fn encode(&self, to: &mut Writer<'_>) {
        (**self).encode(to);
    }
}

impl<'a> Decode<'a> for Cow<'a, str> {
    const MIN_SIZE: usize = 4;

    #[inline]
    fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        <&str>::decode(from).map(Cow::Borrowed)
    }
}

impl<'a> Decode<'a> for Cow<'a, [u8]> {
    const MIN_SIZE: usize = 4;

    #[inline]
    fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        <&[u8]>::decode(from).map(Cow::Borrowed)
    }
}
