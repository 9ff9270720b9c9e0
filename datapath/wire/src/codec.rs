//! Messages as bytes: field after field, without gaps, numbers in network byte order.

use core::mem;

use crate::{Address, Flow, Framings, Seq};

/// What has a place in a message.
pub(crate) trait Field: Sized {
    /// Write it, and leave what is behind it in `to`.
    fn put(&self, to: &mut &mut [u8]);

    /// Read it, and leave what is behind it in `from`. `None` if it is cut off or invalid.
    fn take(from: &mut &[u8]) -> Option<Self>;
}

pub(crate) fn put_bytes(to: &mut &mut [u8], bytes: &[u8]) {
    let (place, rest) = mem::take(to).split_at_mut(bytes.len());
    place.copy_from_slice(bytes);
    *to = rest;
}

/// The value with this code, counted from 1.
pub(crate) fn by_code<T: Copy>(all: &[T], code: u32) -> Option<T> {
    all.get(code.checked_sub(1)? as usize).copied()
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Field for $number {
            fn put(&self, to: &mut &mut [u8]) {
                put_bytes(to, &self.to_be_bytes());
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                let (bytes, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(Self::from_be_bytes(*bytes))
            }
        }
    )*};
}

/// Structs as their fields, in this order.
macro_rules! fields {
    ($($message:ident { $($field:tt)* })*) => {$(
        impl $crate::codec::Field for $message {
            fn put(&self, to: &mut &mut [u8]) {
                $(self.$field.put(to);)*
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                Some($message { $($field: $crate::codec::Field::take(from)?,)* })
            }
        }
    )*};
}

/// Types as another one, with the functions there and back.
macro_rules! carried {
    ($($kind:ty as $carrier:ty: $there:expr, $back:expr;)*) => {$(
        impl $crate::codec::Field for $kind {
            fn put(&self, to: &mut &mut [u8]) {
                let there: fn($kind) -> $carrier = $there;
                there(*self).put(to);
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                let back: fn($carrier) -> Option<$kind> = $back;
                back($crate::codec::Field::take(from)?)
            }
        }
    )*};
}

pub(crate) use {carried, fields};

numbers! { u8 u16 u32 u64 }

fields! { Seq { 0 } Address { 0 } }

carried! {
    bool as u8: u8::from, |code| by_code(&[false, true], u32::from(code) + 1);
    Framings as u8: Framings::bits, |bits| Some(Framings::from_bits(bits));
    // A flow that was set up; never the node's own.
    Flow as u16: Flow::id, |id| Flow::new(id).filter(|&flow| flow != Flow::NODE);
}

impl<T: Field + Copy + Default, const N: usize> Field for [T; N] {
    fn put(&self, to: &mut &mut [u8]) {
        self.iter().for_each(|one| one.put(to));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let mut all = [T::default(); N];
        for one in &mut all {
            *one = T::take(from)?;
        }
        Some(all)
    }
}
