//! The token buffer pool: received messages of one endpoint, in the order of their arrival, until the program gives them back.
//!
//! ```text
//!   memory   │ read │ read │ ready │ arriving        │ ready │          free           │
//!            ▲ oldest                                         ▲ end
//!   chain      ready ──▶ ready        the next that `read` returns, by completion
//! ```
//!
//! A *token* is the record of a message: its place, its length, its state. Memory is a ring: it is given out at the end, and is free
//! again when the oldest token is. The chain has the order of completion, so a long message that still arrives keeps nobody back.
//!
//! The receiving node pushes, `read` pops, `free` gives back. The memory bounds it. When it is full, messages wait in the node's
//! frames, and their senders get no credit.

use std::collections::VecDeque;
use std::ops::Range;

/// Where a message begins: at a multiple of this. A cache line, so that writing one message disturbs no reader of another.
const ALIGN: usize = 64;

/// The number of a message in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenId(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Arriving,
    /// In the chain, or read and not given back.
    Ready,
    Free,
}

#[derive(Clone, Copy, Debug)]
struct Token {
    start: usize,
    len: usize,
    state: State,
}

impl Token {
    fn range(&self) -> Range<usize> {
        self.start..self.start + self.len
    }
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Pool<M> {
    memory: M,
    /// In the order of the memory.
    tokens: VecDeque<Token>,
    /// The number of the first of these.
    oldest: u64,
    /// Where the next token begins.
    end: usize,
    /// Ready and unread.
    chain: VecDeque<TokenId>,
    /// Read and not given back.
    unfreed: VecDeque<TokenId>,
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> Pool<M> {
    pub(crate) fn new(memory: M) -> Self {
        let (tokens, chain, unfreed) = Default::default();
        Pool { memory, tokens, oldest: 0, end: 0, chain, unfreed }
    }

    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }

    /// The longest message that it can hold.
    pub(crate) fn size(&self) -> usize {
        self.memory.as_ref().len()
    }

    /// Where `len` bytes have room.
    #[inline]
    fn place(&self, len: usize) -> Option<usize> {
        let (size, len) = (self.size(), len.max(1));
        let Some(oldest) = self.tokens.front().map(|token| token.start) else {
            return (len <= size).then_some(0);
        };
        if self.end <= oldest {
            return (len <= oldest - self.end).then_some(self.end);
        }
        if self.end < size && len <= size - self.end {
            return Some(self.end);
        }
        (len <= oldest).then_some(0)
    }

    /// Whether a message of this length would find room.
    pub(crate) fn has_room(&self, len: usize) -> bool {
        self.place(len).is_some()
    }

    #[inline]
    fn take(&mut self, len: usize, state: State) -> Option<TokenId> {
        let start = self.place(len)?;
        let id = TokenId(self.oldest + self.tokens.len() as u64);
        self.end = (start + len.max(1)).next_multiple_of(ALIGN);
        self.tokens.push_back(Token { start, len, state });
        Some(id)
    }

    fn token(&mut self, id: TokenId) -> Option<&mut Token> {
        self.tokens.get_mut(usize::try_from(id.0.checked_sub(self.oldest)?).ok()?)
    }

    /// Append a message. Returns whether there was room.
    #[inline]
    pub(crate) fn push(&mut self, message: &[u8]) -> bool {
        let Some(id) = self.take(message.len(), State::Ready) else { return false };
        let start = self.tokens.back().map_or(0, |token| token.start);
        self.memory.as_mut()[start..start + message.len()].copy_from_slice(message);
        self.chain.push_back(id);
        true
    }

    /// Room for a message that arrives in pieces.
    pub(crate) fn reserve(&mut self, len: usize) -> Option<TokenId> {
        self.take(len, State::Arriving)
    }

    /// Write a piece of it. What lies beyond its end is dropped.
    pub(crate) fn write(&mut self, id: TokenId, at: usize, piece: &[u8]) {
        let Some(token) = self.token(id) else { return };
        let range = token.range();
        let start = (range.start + at).min(range.end);
        let len = piece.len().min(range.end - start);
        self.memory.as_mut()[start..start + len].copy_from_slice(&piece[..len]);
    }

    /// It is complete.
    pub(crate) fn complete(&mut self, id: TokenId) {
        let Some(token) = self.token(id) else { return };
        token.state = State::Ready;
        self.chain.push_back(id);
    }

    /// The rest of it will not arrive.
    pub(crate) fn cancel(&mut self, id: TokenId) {
        self.give_back(id);
    }

    /// The next message's place in the memory.
    #[inline]
    pub(crate) fn read(&mut self) -> Option<Range<usize>> {
        let id = self.chain.pop_front()?;
        self.unfreed.push_back(id);
        self.token(id).map(|token| token.range())
    }

    /// Whether a message is ready.
    #[inline]
    pub(crate) fn has_unread(&self) -> bool {
        !self.chain.is_empty()
    }

    /// Give back the oldest `count` messages of those that were read. Returns whether there were so many; else nothing happens.
    #[inline]
    pub(crate) fn free(&mut self, count: usize) -> bool {
        if count > self.unfreed.len() {
            return false;
        }
        for _ in 0..count {
            if let Some(id) = self.unfreed.pop_front() {
                self.give_back(id);
            }
        }
        true
    }

    /// Give back the message that was read last.
    pub(crate) fn free_last(&mut self) {
        if let Some(id) = self.unfreed.pop_back() {
            self.give_back(id);
        }
    }

    #[inline]
    fn give_back(&mut self, id: TokenId) {
        if let Some(token) = self.token(id) {
            token.state = State::Free;
        }
        while self.tokens.front().is_some_and(|token| token.state == State::Free) {
            self.tokens.pop_front();
            self.oldest += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pool(size: usize) -> Pool<Vec<u8>> {
        Pool::new(vec![0; size])
    }

    #[test]
    fn messages_come_in_order_and_stay_until_they_are_given_back() {
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
    fn a_message_that_still_arrives_keeps_nobody_back() {
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
        assert_eq!((&pool.memory[long.start..][..200], &pool.memory[long.start + 200..][..100]), (&[1; 200][..], &[2; 100][..]));
        assert!(pool.memory[long.end..].iter().all(|&byte| byte != 2), "nothing beyond its end");
        assert!(pool.free(2) && pool.tokens.is_empty());
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
        /// Whatever is pushed, read and given back: nothing is lost, changed or reordered.
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
