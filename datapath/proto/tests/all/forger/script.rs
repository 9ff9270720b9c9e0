//! Bytes, read as a script.

/// Bytes, read one after the other; zeros after the end.
pub(crate) struct Script<'a>(pub(crate) &'a [u8]);

impl Script<'_> {
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(crate) fn short(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// One of these values.
    pub(crate) fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.byte() as usize % from.len()]
    }

    /// This many bytes, or fewer at the end.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let (some, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        some.to_vec()
    }
}
