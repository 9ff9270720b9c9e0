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

/// A value of a type that [is not sure](Encode::IS_SURE), in memory of its own. `None` for one of a type that is: it can be written into its
/// message.
///
/// # Errors
/// It cannot be written.
#[inline]
pub(crate) fn sure<T: Encode>(value: &T) -> Result<Option<Encoded>, EncodeError> {
    if T::IS_SURE {
        return Ok(None);
    }
    // A codec of the program's own.
    let written = catch_unwind(AssertUnwindSafe(|| to_vec(value))).unwrap_or(Err(EncodeError::Panicked))?;
    Ok(Some(Encoded(written)))
}

/// What writes a value into its place in a message, and says how many bytes it has written. Its type is sure, or the value was written before.
#[inline]
pub(crate) fn writing<T: Encode>(value: &T) -> impl Fn(&mut [u8]) -> usize {
    move |place| {
        write_into(place, |to| value.encode(to)).ok();
        place.len()
    }
}
