//! What a value is read from: the bytes of a frame that arrived, which are never trusted.

use super::MAX_DEPTH;
use super::error::DecodeError;

/// Reads a frame's bytes from front to back.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    depth: usize,
}

impl<'a> Reader<'a> {
    /// Reads these bytes, which a value may borrow.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes, depth: 0 }
    }

    /// How many bytes are left.
    #[inline]
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next bytes as an array, such as a number's.
    ///
    /// # Errors
    /// When fewer are left.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(self.short(N))?;
        self.rest = rest;
        Ok(*array)
    }

    /// The next bytes, borrowed from the frame.
    ///
    /// # Errors
    /// When fewer are left.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or(self.short(count))?;
        self.rest = rest;
        Ok(bytes)
    }

    /// The position of an enum's variant.
    ///
    /// # Errors
    /// When no byte is left.
    #[inline]
    pub fn tag(&mut self) -> Result<u8, DecodeError> {
        self.array().map(|[tag]| tag)
    }

    /// How many elements follow, of which each takes at least so many bytes. The bytes that are left bound it, so a peer's claim is safe to
    /// loop and to allocate by.
    ///
    /// # Errors
    /// When the rest of the message cannot hold them. A peer must not choose how often a loop runs that consumes nothing, so of elements
    /// that take no bytes there may be none.
    #[inline]
    pub fn count(&mut self, least: usize) -> Result<usize, DecodeError> {
        let count = u32::from_le_bytes(self.array()?) as usize;
        match count.checked_mul(least) {
            Some(bytes) if bytes <= self.left() && (least > 0 || count == 0) => Ok(count),
            _ => Err(DecodeError::Length { count, left: self.left() }),
        }
    }

    /// Read what is behind a pointer, one level deeper. A peer chooses how deep a recursive type goes, and the stack is finite.
    ///
    /// # Errors
    /// Beyond [`MAX_DEPTH`] levels.
    #[inline]
    pub fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, DecodeError>) -> Result<T, DecodeError> {
        if self.depth == MAX_DEPTH {
            return Err(DecodeError::Depth);
        }
        self.depth += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    /// The end of the message.
    ///
    /// # Errors
    /// When bytes are left over: the peer has another version of the type.
    #[inline]
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Left(self.rest.len())) }
    }

    #[inline]
    fn short(&self, need: usize) -> DecodeError {
        DecodeError::Short { need, left: self.rest.len() }
    }
}
