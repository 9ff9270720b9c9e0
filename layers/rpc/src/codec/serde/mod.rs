//! Types with serde's traits, in postcard's format.

mod bounded;

use postcard::Deserializer;
use postcard::ser_flavors::{Flavor, Size};
use serde::{Deserialize, Serialize};

use super::error::{DecodeError, EncodeError};
use super::layout::Layout;
use super::reader::Reader;
use super::traits::{Decode, Encode, Schema};
use super::writer::Writer;

/// A value of a type that implements serde's traits, in [postcard](https://docs.rs/postcard)'s format.
///
/// The layout of such a type is not known: no number changes when its fields do. Serde walks through the value twice, for its size and for
/// its bytes. So derive [`Wire`](super::Wire) for a type that is yours.
///
/// A peer's bytes are bounded as they are elsewhere: by [`MAX_DEPTH`](super::MAX_DEPTH) levels, and a sequence or map has at most as many
/// elements as bytes follow, all of them together as many as the message has bytes. Only one of elements without bytes (`Vec<()>`) could have
/// more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Serde<T>(pub T);

impl<T> Schema for Serde<T> {
    const SCHEMA: u64 = Layout::new("serde").finish();
}

impl<T: Serialize> Encode for Serde<T> {
    /// Zero if serde cannot write the value: `encode` says why.
    fn size(&self) -> usize {
        postcard::serialize_with_flavor(&self.0, Size::default()).unwrap_or(0)
    }

    fn encode(&self, to: &mut Writer<'_>) {
        if let Err(error) = postcard::serialize_with_flavor(&self.0, InFrame(to)) {
            to.fail(EncodeError::Serde(error));
        }
    }
}

/// Postcard writes where everything else is written.
struct InFrame<'a, 'frame>(&'a mut Writer<'frame>);

impl Flavor for InFrame<'_, '_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.array([byte]);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.bytes(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

impl<'a, T: Deserialize<'a>> Decode<'a> for Serde<T> {
    const MIN_SIZE: usize = 0;

    fn decode(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let bytes = from.clone().bytes(from.left())?;
        let mut postcard = Deserializer::from_bytes(bytes);
        let value = bounded::read(&mut postcard, bytes.len())?;
        let rest = postcard.finalize().map_err(DecodeError::Serde)?;
        from.bytes(bytes.len() - rest.len())?;
        Ok(Serde(value))
    }
}
