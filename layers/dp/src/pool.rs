//! The token buffer pool: received messages of one endpoint, in the order of their arrival, until the program releases them.
//!
//! ```text
//!   memory   │ read │ read │ ready │ arriving        │ ready │          free           │
//!            ▲ oldest                                         ▲ end
//!   `read` returns the first that is ready
//! ```
//!
//! A *token* is the record of a message: its place, its length, its state. The memory is a ring: it is allocated at the end, and
//! released at the oldest token. An incomplete long message does not block those behind it (no head-of-line blocking): they are read
//! first.
//!
//! Pushed by: the receiving node. Popped by: `read`, and released by `free`. Bounded by: the memory. When full: messages wait in their
//! frames, and their senders get no credit.

use std::ops::Range;

/// Messages begin at multiples of this: a cache line, so that writing one message does not evict a line of another from its reader's
/// cache.
const ALIGN: usize = 64;

/// The number of tokens of a new pool. It grows when more are needed.
const TOKENS: usize = 64;

/// The number of a message in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenId(usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Arriving,
    /// Complete and unread.
    Ready,
    /// Read, and not released.
    Read,
    Free,
}

#[derive(Clone, Copy, Debug)]
struct Token {
    start: usize,
    len: usize,
    state: State,
    /// For a token that was read: the index of the token that was read after it.
    next: usize,
}

const NEW: Token = Token { start: 0, len: 0, state: State::Free, next: 0 };

/// A token buffer pool.
#[derive(Debug)]
pub(crate) struct Pool<M> {
    memory: M,
    /// The tokens in the order of the memory. The index is the number modulo the table's length, which is a power of two.
    tokens: Vec<Token>,
    /// The number of the oldest, and the number after the newest.
    oldest: usize,
    newest: usize,
    /// The place in the memory where the next token begins.
    end: usize,
    /// No token before this one is ready.
    cursor: usize,
    /// The tokens that were read and not released: how many, the first and the last.
    unfreed: usize,
    first_read: usize,
    last_read: usize,
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> Pool<M> {
    pub(crate) fn new(memory: M) -> Self {
        let (oldest, newest, end, cursor, unfreed, first_read, last_read) = Default::default();
        Pool { memory, tokens: vec![NEW; TOKENS], oldest, newest, end, cursor, unfreed, first_read, last_read }
    }

    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }

    /// The length of the longest message that fits.
    pub(crate) fn size(&self) -> usize {
        self.memory.as_ref().len()
    }

    #[inline]
    fn at(&self, number: usize) -> &Token {
        &self.tokens[number & (self.tokens.len() - 1)]
    }

    #[inline]
    fn at_mut(&mut self, number: usize) -> &mut Token {
        let mask = self.tokens.len() - 1;
        &mut self.tokens[number & mask]
    }

    /// The place for `len` bytes. `None` if there is no room.
    #[inline]
    fn place(&self, len: usize) -> Option<usize> {
        let (size, len) = (self.size(), len.max(1));
        if self.oldest == self.newest {
            return (len <= size).then_some(0);
        }
        let oldest = self.at(self.oldest).start;
        if self.end <= oldest {
            return (len <= oldest - self.end).then_some(self.end);
        }
        if self.end < size && len <= size - self.end {
            return Some(self.end);
        }
        (len <= oldest).then_some(0)
    }

    /// Whether there is room for a message of this length.
    pub(crate) fn has_room(&self, len: usize) -> bool {
        self.place(len).is_some()
    }

    /// Allocate a token. Returns it, and its place.
    #[inline]
    fn take(&mut self, len: usize, state: State) -> Option<(TokenId, usize)> {
        let start = self.place(len)?;
        if self.newest - self.oldest == self.tokens.len() {
            self.grow();
        }
        let number = self.newest;
        *self.at_mut(number) = Token { start, len, state, next: 0 };
        self.newest += 1;
        self.end = (start + len.max(1)).next_multiple_of(ALIGN);
        Some((TokenId(number), start))
    }

    /// Double the table of tokens.
    #[cold]
    fn grow(&mut self) {
        let mut tokens = vec![NEW; 2 * self.tokens.len()];
        let mask = tokens.len() - 1;
        (self.oldest..self.newest).for_each(|number| tokens[number & mask] = *self.at(number));
        self.tokens = tokens;
    }

    /// Append a message. Returns whether there was room.
    #[inline]
    pub(crate) fn push(&mut self, message: &[u8]) -> bool {
        let Some((_, start)) = self.take(message.len(), State::Ready) else { return false };
        self.memory.as_mut()[start..start + message.len()].copy_from_slice(message);
        true
    }

    /// Allocate room for a message that arrives in pieces.
    pub(crate) fn reserve(&mut self, len: usize) -> Option<TokenId> {
        self.take(len, State::Arriving).map(|(id, _)| id)
    }

    /// Write a piece of a message. Bytes beyond the message's end are dropped.
    pub(crate) fn write(&mut self, id: TokenId, at: usize, piece: &[u8]) {
        let &Token { start, len, .. } = self.at(id.0);
        let (from, end) = ((start + at).min(start + len), start + len);
        let len = piece.len().min(end - from);
        self.memory.as_mut()[from..from + len].copy_from_slice(&piece[..len]);
    }

    /// A message is complete.
    pub(crate) fn complete(&mut self, id: TokenId) {
        self.at_mut(id.0).state = State::Ready;
        self.cursor = self.cursor.min(id.0);
    }

    /// The rest of a message will not arrive: release it.
    pub(crate) fn cancel(&mut self, id: TokenId) {
        self.release(id.0);
    }

    /// The next message that is ready.
    #[inline]
    fn ready(&self) -> Option<usize> {
        if self.cursor == self.newest {
            return None;
        }
        if self.at(self.cursor).state == State::Ready {
            return Some(self.cursor);
        }
        self.ready_behind()
    }

    /// The message at the cursor is incomplete, so find the next complete one behind it.
    #[cold]
    fn ready_behind(&self) -> Option<usize> {
        (self.cursor..self.newest).find(|&number| self.at(number).state == State::Ready)
    }

    /// As [`ready`](Pool::ready), and advance the cursor past the message, because the caller reads it.
    #[inline]
    fn next_ready(&mut self) -> Option<usize> {
        let number = self.ready()?;
        if number == self.cursor {
            self.cursor += 1;
        }
        Some(number)
    }

    /// The next message's place in the memory.
    #[inline]
    pub(crate) fn read(&mut self) -> Option<Range<usize>> {
        let number = self.next_ready()?;
        let token = self.at_mut(number);
        token.state = State::Read;
        let range = token.start..token.start + token.len;
        if self.unfreed == 0 {
            self.first_read = number;
        } else {
            let last = self.last_read;
            self.at_mut(last).next = number;
        }
        self.last_read = number;
        self.unfreed += 1;
        Some(range)
    }

    /// Whether a message is ready.
    #[inline]
    pub(crate) fn has_unread(&self) -> bool {
        self.ready().is_some()
    }

    /// Release the oldest `count` messages that were read. If there are fewer, release none and return `false`.
    #[inline]
    pub(crate) fn free(&mut self, count: usize) -> bool {
        if count > self.unfreed {
            return false;
        }
        for _ in 0..count {
            let number = self.first_read;
            self.first_read = self.at(number).next;
            self.release(number);
        }
        self.unfreed -= count;
        true
    }

    /// Pass the bytes of the next complete message to `use_it`, and release it. `false` if there is none.
    pub(crate) fn take_with(&mut self, use_it: impl FnOnce(&[u8])) -> bool {
        let Some(number) = self.next_ready() else { return false };
        let &Token { start, len, .. } = self.at(number);
        use_it(&self.memory.as_ref()[start..start + len]);
        self.release(number);
        true
    }

    #[inline]
    fn release(&mut self, number: usize) {
        self.at_mut(number).state = State::Free;
        if number == self.oldest {
            self.oldest += 1;
            self.cursor = self.cursor.max(self.oldest);
            if self.oldest != self.newest {
                self.skip_free();
            }
        }
    }

    /// Skip tokens that were released before an older one.
    fn skip_free(&mut self) {
        while self.oldest != self.newest && self.at(self.oldest).state == State::Free {
            self.oldest += 1;
        }
        self.cursor = self.cursor.max(self.oldest);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn pool(size: usize) -> Pool<Vec<u8>> {
        Pool::new(vec![0; size])
    }

    #[test]
    fn messages_come_in_order_and_stay_until_they_are_released() {
        let mut pool = pool(256);
        assert!(pool.push(b"one") && pool.push(b"two") && pool.push(b"three") && pool.push(b"four"));
        assert!(!pool.push(b"no room"));
        let (one, two) = (pool.read().unwrap(), pool.read().unwrap());
        assert_eq!((&pool.memory[one], &pool.memory[two]), (&b"one"[..], &b"two"[..]));
        assert!(!pool.free(3), "two were read");
        assert!(!pool.push(b"no room"));
        assert!(pool.free(1) && pool.push(b"five") && !pool.push(b"no room"));
    }

    #[test]
    fn a_message_may_fill_the_pool() {
        let mut pool = pool(100);
        assert!(pool.push(&[7; 100]) && !pool.push(b""));
        assert_eq!(pool.read(), Some(0..100));
        assert!(pool.free(1) && pool.push(&[8; 100]));
        assert!(!pool.push(&[9; 101]));
    }

    #[test]
    fn an_incomplete_message_does_not_block_those_behind_it() {
        let mut pool = pool(1024);
        let long = pool.reserve(300).unwrap();
        pool.write(long, 0, &[1; 200]);
        assert!(pool.push(b"short"));
        let short = pool.read().unwrap();
        assert_eq!(&pool.memory[short], b"short");
        assert!(!pool.has_unread());
        pool.write(long, 200, &[2; 150]);
        pool.complete(long);
        let long = pool.read().unwrap();
        assert_eq!(
            (&pool.memory[long.start..][..200], &pool.memory[long.start + 200..][..100]),
            (&[1; 200][..], &[2; 100][..])
        );
        assert!(pool.memory[long.end..].iter().all(|&byte| byte != 2), "nothing beyond its end");
        assert!(pool.free(2) && pool.oldest == pool.newest);
    }

    #[test]
    fn what_is_cancelled_is_free() {
        let mut pool = pool(128);
        let token = pool.reserve(100).unwrap();
        assert!(!pool.push(b"no room"));
        pool.cancel(token);
        assert!(pool.push(&[1; 128]));
    }

    proptest! {
        /// Whatever is pushed, read and released: nothing is lost, changed or reordered.
        #[test]
        fn it_is_a_queue(size in 64usize..2048, steps in prop::collection::vec((0u8..4, 1usize..700), 1..300)) {
            let mut pool = pool(size);
            let mut unread = VecDeque::new();
            let mut held: VecDeque<(Range<usize>, u8)> = VecDeque::new();
            for (at, (step, len)) in steps.into_iter().enumerate() {
                let mark = at as u8;
                match step {
                    0 | 1 => {
                        let is_empty = unread.is_empty() && held.is_empty();
                        let pushed = pool.push(&vec![mark; len]);
                        prop_assert!(pushed || !is_empty || len > size);
                        if pushed {
                            unread.push_back((mark, len));
                        }
                    }
                    2 => {
                        let read = pool.read();
                        prop_assert_eq!(read.is_some(), !unread.is_empty());
                        if let (Some(range), Some((mark, len))) = (read, unread.pop_front()) {
                            prop_assert_eq!(range.len(), len);
                            held.push_back((range, mark));
                        }
                    }
                    _ => {
                        let freed = pool.free(1);
                        prop_assert_eq!(freed, held.pop_front().is_some());
                    }
                }
                for (range, mark) in &held {
                    prop_assert!(pool.memory[range.clone()].iter().all(|byte| byte == mark));
                }
            }
        }
    }
}
