//! Where a value is written: the part of a frame that it announced.

use std::mem;

use super::MAX_DEPTH;
use super::error::EncodeError;

/// Writes into exactly the bytes that a value announced by its size.
///
/// A frame may contain old bytes. So a value that writes too little is filled up with zeros, and of a value that writes too much the
/// excess is dropped. Either way [`finish`](Writer::finish) reports it, and the message must not leave.
#[derive(Debug)]
#[must_use = "`finish` says whether the message may leave"]
pub struct Writer<'a> {
    rest: &'a mut [u8],
    depth: usize,
    failed: Option<EncodeError>,
    /// Entries of maps and sets are written in the order of their bytes.
    sorts: bool,
}

/// Writes into these bytes, which are as many as the value announced.
///
/// # Errors
/// As for [`Writer::finish`].
#[inline]
pub(super) fn write_into(bytes: &mut [u8], write: impl FnOnce(&mut Writer<'_>)) -> Result<(), EncodeError> {
    let mut writer = Writer::new(bytes);
    write(&mut writer);
    writer.finish()
}

impl<'a> Writer<'a> {
    /// Writes into these bytes, which are as many as the value announced.
    #[inline]
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Writer { rest: bytes, depth: 0, failed: None, sorts: false }
    }

    /// The same. Equal maps and sets become equal bytes, in whatever order they have their entries.
    pub(super) fn canonical(bytes: &'a mut [u8]) -> Self {
        Writer { sorts: true, ..Writer::new(bytes) }
    }

    /// Write entries whose order says nothing, one level deeper.
    #[inline]
    pub(super) fn entries<I>(
        &mut self,
        entries: impl Iterator<Item = I>,
        size: impl Fn(&I) -> usize,
        write: impl Fn(&I, &mut Writer<'_>),
    ) {
        self.nested(|to| {
            if !to.sorts {
                return entries.for_each(|entry| write(&entry, to));
            }
            let mut sorted = vec![];
            for entry in entries {
                let mut bytes = vec![0; size(&entry)];
                let mut own = Writer { depth: to.depth, ..Writer::canonical(&mut bytes) };
                write(&entry, &mut own);
                if let Err(error) = own.finish() {
                    return to.fail(error);
                }
                sorted.push(bytes);
            }
            sorted.sort_unstable();
            sorted.iter().for_each(|bytes| to.bytes(bytes));
        });
    }

    /// Append an array, such as a number's bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self, bytes: [u8; N]) {
        if let Some(room) = self.room(N) {
            room.copy_from_slice(&bytes);
        }
    }

    /// Append bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        if let Some(room) = self.room(bytes.len()) {
            room.copy_from_slice(bytes);
        }
    }

    /// Append the number of elements that follow.
    #[inline]
    pub fn count(&mut self, count: usize) {
        match u32::try_from(count) {
            Ok(count) => self.array(count.to_le_bytes()),
            Err(_) => self.fail(EncodeError::Length(count)),
        }
    }

    /// Write what is behind a pointer, one level deeper.
    #[inline]
    pub fn nested(&mut self, write: impl FnOnce(&mut Self)) {
        if self.depth == MAX_DEPTH {
            return self.fail(EncodeError::Depth);
        }
        self.depth += 1;
        write(self);
        self.depth -= 1;
    }

    /// The next bytes, to be written by the caller. `None` if there are fewer, which [`finish`](Writer::finish) reports.
    #[inline]
    pub fn room(&mut self, count: usize) -> Option<&'a mut [u8]> {
        if count > self.rest.len() {
            self.fail(EncodeError::Excess);
            return None;
        }
        let (room, rest) = mem::take(&mut self.rest).split_at_mut(count);
        self.rest = rest;
        Some(room)
    }

    /// Give up: zeros for all that was not written yet. The first cause is reported.
    #[inline]
    pub fn fail(&mut self, error: EncodeError) {
        self.failed.get_or_insert(error);
        clear(mem::take(&mut self.rest));
    }

    /// Whether the value wrote what it announced.
    ///
    /// # Errors
    /// When it did not, or could not be written. The bytes that it did not write are zeros.
    #[inline]
    pub fn finish(mut self) -> Result<(), EncodeError> {
        if !self.rest.is_empty() {
            self.fail(EncodeError::Missing(self.rest.len()));
        }
        self.failed.map_or(Ok(()), Err)
    }
}

/// Not inlined, and not a method: a writer whose address nobody takes stays in registers.
#[cold]
#[inline(never)]
fn clear(bytes: &mut [u8]) {
    bytes.fill(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(write: impl FnOnce(&mut Writer<'_>)) -> ([u8; 4], Result<(), EncodeError>) {
        let mut bytes = [0xEE; 4];
        let mut writer = Writer::new(&mut bytes);
        write(&mut writer);
        let ended = writer.finish();
        (bytes, ended)
    }

    #[test]
    fn no_old_byte_is_left() {
        assert_eq!(with(|to| to.bytes(&[1, 2, 3, 4])), ([1, 2, 3, 4], Ok(())));
        assert_eq!(with(|to| to.bytes(&[1])), ([1, 0, 0, 0], Err(EncodeError::Missing(3))));
        assert_eq!(with(|_| ()), ([0; 4], Err(EncodeError::Missing(4))));
    }

    #[test]
    fn an_excess_is_dropped_and_so_is_what_follows() {
        let too_much = |to: &mut Writer<'_>| {
            to.array([1, 2]);
            to.bytes(&[3, 4, 5]);
            to.array([6]);
        };
        assert_eq!(with(too_much), ([1, 2, 0, 0], Err(EncodeError::Excess)));
    }

    #[test]
    fn the_first_cause_is_named() {
        let both = |to: &mut Writer<'_>| {
            to.count(1 << 32);
            to.array([1; 5]);
        };
        assert_eq!(with(both), ([0; 4], Err(EncodeError::Length(1 << 32))));
    }
}
