//! Tuples and arrays: their elements, one after the other, and nothing else.

use super::error::DecodeError;
use super::layout::Layout;
use super::reader::Reader;
use super::traits::{Decode, Encode, Schema};
use super::writer::Writer;

macro_rules! tuples {
    ($(($($name:ident)*))+) => {$(
        #[allow(non_snake_case, unused_variables, reason = "a tuple may be empty; its elements have the names of their types")]
        const _: () = {
            impl<$($name: Schema),*> Schema for ($($name,)*) {
                const SCHEMA: u64 = Layout::new("tuple")$(.part($name::SCHEMA))*.finish();
            }

            impl<$($name: Encode),*> Encode for ($($name,)*) {
                const IS_SURE: bool = true $(&& $name::IS_SURE)*;

                #[inline]
                fn size(&self) -> usize {
                    let ($($name,)*) = self;
                    0 $(+ $name.size())*
                }

                #[inline]
                fn encode(&self, to: &mut Writer<'_>) {
                    let ($($name,)*) = self;
                    $($name.encode(to);)*
                }
            }

            impl<'a, $($name: Decode<'a>),*> Decode<'a> for ($($name,)*) {
                const MIN_SIZE: usize = 0 $(+ $name::MIN_SIZE)*;

                #[inline]
                fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
                    Ok(($($name::decode(from)?,)*))
                }
            }
        };
    )+};
}

tuples! {
    ()
    (A)
    (A B)
    (A B C)
    (A B C D)
    (A B C D E)
    (A B C D E F)
    (A B C D E F G)
    (A B C D E F G H)
    (A B C D E F G H I)
    (A B C D E F G H I J)
    (A B C D E F G H I J K)
    (A B C D E F G H I J K L)
}

impl<T: Schema, const N: usize> Schema for [T; N] {
    const SCHEMA: u64 = Layout::new("array").part(N as u64).part(T::SCHEMA).finish();
}

impl<T: Encode, const N: usize> Encode for [T; N] {
    const IS_SURE: bool = T::IS_SURE;

    #[inline]
    fn size(&self) -> usize {
        T::size_of_slice(self)
    }

    #[inline]
    fn encode(&self, to: &mut Writer<'_>) {
        T::encode_slice(self, to);
    }
}

impl<'a, T: Decode<'a>, const N: usize> Decode<'a> for [T; N] {
    const MIN_SIZE: usize = N * T::MIN_SIZE;

    #[inline]
    fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        T::decode_array(from)
    }
}
