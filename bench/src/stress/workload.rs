//! The content of each numbered message, the same for its sender and its receiver.

use am_wire::{MAX_WORDS, WORD_BYTES};
use serde::{Deserialize, Serialize};

use super::report::Outcome;
use am_measure::content::{RandomBytes, mix};

/// Small messages are sent in runs of this many, so that they are coalesced.
const RUN: u64 = 16;
/// One run in this many has small messages.
const SMALL_RUNS: u64 = 8;
/// The largest payload of a small message.
const MAX_SMALL_PAYLOAD: u64 = 64;
/// The most bytes of a small message.
const MAX_SMALL_BYTES: u64 = (MAX_WORDS * WORD_BYTES) as u64 + MAX_SMALL_PAYLOAD;
/// The mean size of a small message in bytes: 2.5 words, and half of the largest payload.
const SMALL_MEAN: f64 = 2.5 * WORD_BYTES as f64 + MAX_SMALL_PAYLOAD as f64 / 2.0;
/// The mean is raised by this factor, so that many messages reach the sum with any random numbers.
const MARGIN: f64 = 1.005;
/// With at most this many messages the margin may not suffice, so the sum is computed.
const MAX_SUMMED: u64 = 1_000_000;
/// How often the mean is raised for a sum that is too small.
const MAX_TRIES: usize = 16;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageKind {
    /// A request without a reply.
    Data,
    /// A request; its reply is the next number.
    Ask,
    /// A reply.
    Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Workload {
    pub(super) messages: u64,
    /// The smallest total of words and payload, in bytes; 0 if the user gave none.
    pub(super) bytes: u64,
    pub(super) seed: u64,
    /// The range of the bytes of words and payload of a message that is not small.
    low: u32,
    high: u32,
}

/// A message: its words, and the length of its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageShape {
    words: [u64; MAX_WORDS],
    count: usize,
    pub(super) payload: usize,
}

impl MessageShape {
    pub(super) fn words(&self) -> &[u64] {
        &self.words[..self.count]
    }

    /// The bytes of words and payload.
    pub(super) fn bytes(&self) -> u64 {
        (self.count * WORD_BYTES + self.payload) as u64
    }
}

impl Workload {
    /// Messages of at most `most` bytes each, and of at least `bytes` in all; `None` if that is impossible.
    pub(super) fn new(messages: u64, bytes: u64, most: u32, seed: u64) -> Option<Workload> {
        let mut mean = bytes as f64 / messages as f64;
        for _ in 0..MAX_TRIES {
            let workload = Workload { bytes, ..Workload::of_mean(messages, mean, most, seed)? };
            let sum = || (0..messages).map(|number| workload.shape(number).bytes()).sum();
            let lacks = if messages > MAX_SUMMED { 0 } else { bytes.saturating_sub(sum()) };
            if lacks == 0 {
                return Some(workload);
            }
            mean += 1.0 + lacks as f64 / messages as f64;
        }
        None
    }

    /// Messages of about `mean` bytes each, whatever their sum.
    pub(super) fn of_mean(messages: u64, mean: f64, most: u32, seed: u64) -> Option<Workload> {
        let mean = mean * MARGIN;
        let share = 1.0 / SMALL_RUNS as f64;
        let large = ((mean - share * SMALL_MEAN) / (1.0 - share)).max(WORD_BYTES as f64).ceil() as u64;
        let most = u64::from(most);
        // A uniform range around the mean, as wide as possible, so that full frames are among the messages.
        let high = most.min(2 * large);
        let low = (2 * large).checked_sub(high)?;
        let is_valid = messages > 0 && messages.is_multiple_of(4) && low <= high && most >= MAX_SMALL_BYTES;
        is_valid.then_some(Workload { messages, bytes: 0, seed, low: low as u32, high: high as u32 })
    }

    /// The kind of a message.
    pub(super) fn kind(number: u64) -> MessageKind {
        match number % 4 {
            3 => MessageKind::Answer,
            2 => MessageKind::Ask,
            _ => MessageKind::Data,
        }
    }

    /// The number of requests.
    pub(super) fn requests(&self) -> u64 {
        self.messages / 4 * 3
    }

    /// The number of replies.
    pub(super) fn answers(&self) -> u64 {
        self.messages / 4
    }

    /// Words and length of a message.
    pub(super) fn shape(&self, number: u64) -> MessageShape {
        let random = mix(self.seed ^ mix(number));
        let run = number / RUN;
        let is_small = run % SMALL_RUNS == mix(self.seed ^ !(run / SMALL_RUNS)) % SMALL_RUNS;
        let count = 1 + (random & 3) as usize;
        let (count, payload) = if is_small {
            (count, (random >> 8) % (MAX_SMALL_PAYLOAD + 1))
        } else {
            let body = u64::from(self.low) + (random >> 8) % u64::from(self.high - self.low + 1);
            let count = count.min(body as usize / WORD_BYTES).max(1);
            (count, body.saturating_sub((count * WORD_BYTES) as u64))
        };
        let words = [number, mix(random), mix(random ^ 1), mix(random ^ 2)];
        MessageShape { words, count, payload: payload as usize }
    }

    /// Write a message's payload.
    pub(super) fn fill(&self, number: u64, payload: &mut [u8]) {
        RandomBytes::new(self.seed, number).fill(payload);
    }

    /// Whether this is the message's payload, apart from `start` pieces of 8 bytes at its start.
    pub(super) fn is_payload_from(&self, number: u64, payload: &[u8], start: usize) -> bool {
        let mut bytes = RandomBytes::new(self.seed, number);
        let mut pieces = payload.chunks(8).map(|piece| *piece == bytes.draw()[..piece.len()]);
        pieces.by_ref().take(start).for_each(drop);
        pieces.all(|is_equal| is_equal)
    }

    /// The number and shape of a message, if its words and its payload are correct.
    pub(super) fn recognise(&self, words: &[u64], payload: &[u8]) -> Option<(u64, MessageShape)> {
        let number = *words.first()?;
        let shape = self.shape(number);
        let matches = number < self.messages && words == shape.words() && payload.len() == shape.payload;
        (matches && self.is_payload_from(number, payload, 0)).then_some((number, shape))
    }
}

/// The messages that have arrived: a bit for each number.
#[derive(Debug)]
pub(super) struct Ledger(Vec<u64>);

impl Ledger {
    /// For the numbers below this.
    pub(super) fn new(numbers: u64) -> Ledger {
        Ledger(vec![0; numbers.div_ceil(64) as usize])
    }

    /// Note and count an arrival.
    pub(super) fn note(&mut self, number: u64, outcome: &mut Outcome) {
        let (word, bit) = (&mut self.0[(number / 64) as usize], 1 << (number % 64));
        *(if *word & bit == 0 { &mut outcome.arrived } else { &mut outcome.twice }) += 1;
        *word |= bit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_and_twice() {
        let (mut ledger, mut outcome) = (Ledger::new(130), Outcome::default());
        [0, 129, 64, 129, 63].into_iter().for_each(|number| ledger.note(number, &mut outcome));
        assert_eq!((outcome.arrived, outcome.twice), (4, 1));
    }

    fn all(workload: &Workload) -> (u64, u64, u64) {
        let bytes = (0..workload.messages).map(|number| workload.shape(number).bytes());
        bytes.fold((0, u64::MAX, 0), |(sum, least, most), bytes| (sum + bytes, least.min(bytes), most.max(bytes)))
    }

    #[test]
    fn the_sum_is_reached_and_no_message_is_too_long() {
        for mean in [100, 700, 1074, 1250] {
            let workload = Workload::new(200_000, 200_000 * mean, 1500, 7).expect("they fit");
            let (sum, least, most) = all(&workload);
            assert!((200_000 * mean..=202_000 * mean + 200_000).contains(&sum), "{mean}: {sum}");
            assert!(least <= 16 && most <= 1500, "from {least} to {most}");
            assert!(mean < 700 || most == 1500, "full frames are among them");
        }
    }

    #[test]
    fn few_messages_reach_their_sum_too() {
        for (messages, bytes, most, seed) in
            (0..50).flat_map(|seed| [(3000, 3_219_000, 65_000, seed), (100, 50_000, 1500, seed)])
        {
            let workload = Workload::new(messages, bytes, most, seed).expect("they fit");
            assert!(all(&workload).0 >= bytes, "{workload:?}");
        }
        assert!((0..50).all(|seed| Workload::of_mean(4, 1073.0, 1500, seed).is_some()));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (messages, bytes) in [(0, 0), (1001, 1000), (1000, 1_600_000)] {
            assert_eq!(Workload::new(messages, bytes, 1500, 7), None, "{messages} of {bytes}");
        }
    }

    #[test]
    fn a_message_is_recognised_and_a_spoilt_one_is_not() {
        let workload = Workload::new(1000, 1000 * 900, 1500, 7).expect("they fit");
        for number in 0..1000 {
            let shape = workload.shape(number);
            let mut payload = vec![0; shape.payload];
            workload.fill(number, &mut payload);
            assert_eq!(workload.recognise(shape.words(), &payload), Some((number, shape)));
            let Some(last) = payload.last_mut() else { continue };
            *last ^= 1;
            assert_eq!(workload.recognise(shape.words(), &payload), None);
            assert_eq!(workload.recognise(shape.words(), &payload[1..]), None);
            assert_eq!(workload.recognise(&shape.words()[1..], &payload), None);
        }
    }
}
