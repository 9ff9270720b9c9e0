//! Whether a process sleeps, in a word of shared memory, so that others wake it only then.
//!
//! ```text
//!   sender                        the process that sleeps
//!
//!   publish                       make its descriptor unreadable
//!   after_publish                 set
//!   if take: wake it              look for frames once more: sleep only if there are none
//! ```
//!
//! [`set`](SleepWord::set) and [`after_publish`](SleepWord::after_publish) are fences, and one of the two comes first. So either the sender
//! sees the word, or the process sees the frame. Of several senders, one takes the word. If that one dies before it wakes the process, or
//! never wakes it, the process sleeps for its longest sleep.
//!
//! A process that sleeps because a lane is full says so in the word. Then the receiver of a lane wakes it as well, once it has given
//! back lines: `after_publish`, and if `take_for_room`: wake it. The process looks for room once more before it sleeps.

use crate::sync::{Ordering::*, fence};

use super::{Shared, SharedWord};

const ASLEEP: u32 = 1;
const FOR_ROOM: u32 = 2;

/// Whether a process sleeps. See the file's page.
#[derive(Clone, Debug)]
pub struct SleepWord(SharedWord);

impl SleepWord {
    /// The word at this offset.
    ///
    /// # Panics
    /// It is not within, or not aligned.
    pub fn at(memory: &Shared, offset: usize) -> SleepWord {
        SleepWord(SharedWord::new(memory, offset))
    }

    /// For the process, before it sleeps. It must look for frames once more, and for room if that is what it waits for.
    pub fn set(&self, for_room: bool) {
        self.0.store(if for_room { ASLEEP | FOR_ROOM } else { ASLEEP }, Relaxed);
        fence(SeqCst);
    }

    /// For the process: it does not sleep.
    pub fn clear(&self) {
        self.0.store(0, Relaxed);
    }

    /// Whether no sender has taken the word since it was set.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    /// For a sender, between publishing frames and [`take`](Self::take): once for all words.
    #[inline]
    pub fn after_publish() {
        fence(SeqCst);
    }

    /// Whether the caller has to wake the process.
    #[inline]
    pub fn take(&self) -> bool {
        self.0.load(Relaxed) != 0 && self.0.swap(0, Relaxed) != 0
    }

    /// For the receiver of a lane that has given back lines: whether the caller has to wake the process, which waits for room.
    pub fn take_for_room(&self) -> bool {
        self.0.load(Relaxed) & FOR_ROOM != 0 && self.take()
    }
}
