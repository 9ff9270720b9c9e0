//! The word arguments of a message that waits.

/// The most words of a message.
const MAX_WORDS: usize = 4;

/// The words of a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Words {
    all: [u64; MAX_WORDS],
    count: usize,
}

impl Words {
    /// `None` if there are too many.
    pub(crate) fn new(words: &[u64]) -> Option<Words> {
        let mut all = [0; MAX_WORDS];
        all.get_mut(..words.len())?.copy_from_slice(words);
        Some(Words { all, count: words.len() })
    }

    pub(crate) fn as_slice(&self) -> &[u64] {
        &self.all[..self.count]
    }
}
