//! Values on their way into a message.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::error::EncodeError;
use super::traits::{Encode, to_vec};
use super::writer::{Writer, write_into};

/// A value that was written into memory of its own.
pub(crate) struct Encoded(pub(crate) Vec<u8>);

impl Encode for Encoded {
    const IS_SURE: bool = true;

    fn size(&self) -> usize {
        self.0.len()
    }

    fn encode(&self, to: &mut Writer<'_>) {
        to.bytes(&self.0);
    }
}

/// A value in memory of its own. Its codec may be one of the program's own.
///
/// # Errors
/// It cannot be written.
pub(crate) fn encoded<T: Encode>(value: &T) -> Result<Encoded, EncodeError> {
    catch_unwind(AssertUnwindSafe(|| to_vec(value))).unwrap_or(Err(EncodeError::Panicked)).map(Encoded)
}

/// A value whose writing cannot fail any more.
pub(crate) enum Sure<'a, T> {
    Value(&'a T),
    Encoded(Encoded),
}

impl<T: Encode> Encode for Sure<'_, T> {
    const IS_SURE: bool = true;

    #[inline]
    fn size(&self) -> usize {
        match self {
            Sure::Value(value) => value.size(),
            Sure::Encoded(encoded) => encoded.size(),
        }
    }

    #[inline]
    fn encode(&self, to: &mut Writer<'_>) {
        match self {
            Sure::Value(value) => value.encode(to),
            Sure::Encoded(encoded) => encoded.encode(to),
        }
    }
}

/// The value, if its type [is sure](Encode::IS_SURE): it is written into its message. Otherwise it is written into memory of its own first.
///
/// # Errors
/// It cannot be written.
#[inline]
pub(crate) fn sure<T: Encode>(value: &T) -> Result<Sure<'_, T>, EncodeError> {
    if T::IS_SURE { Ok(Sure::Value(value)) } else { encoded(value).map(Sure::Encoded) }
}

/// What writes a value into its place in a message, and says how many bytes it has written. Its type is sure.
#[inline]
pub(crate) fn writing<T: Encode>(value: &T) -> impl Fn(&mut [u8]) -> usize {
    move |place| {
        write_into(place, |to| value.encode(to)).ok();
        place.len()
    }
}
