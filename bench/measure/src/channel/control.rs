//! The control messages between the two sides of a measurement. They use the driver that is measured.

use std::time::Duration;

use crate::loss::Loss;
use crate::plan::Bench;
use crate::size::MAX_SIZE;

/// The parameters of one measurement that the far side needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Its number within the stage, from 1.
    pub(crate) number: u32,
    pub(crate) bench: Bench,
    pub(crate) size: usize,
    /// The share of frames to lose, in each direction.
    pub(crate) loss: Loss,
    /// Time at the start that is not counted.
    pub(crate) warm_up: Duration,
    pub(crate) time: Duration,
}

/// A control message. It names its step, so that a late one is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlMessage {
    Hello(Step),
    Ready {
        step: u32,
    },
    /// How many data messages have arrived; `of` repeats the `sent` of the `HowMany` that this answers.
    Got {
        step: u32,
        messages: u64,
        of: Option<u64>,
    },
    /// The near side has sent this many, more than 0, and asks for a `Got`.
    HowMany {
        step: u32,
        sent: u64,
    },
    /// What arrived within the measured interval.
    Counted {
        step: u32,
        messages: u64,
        bytes: u64,
        time: Duration,
    },
    Stop {
        step: u32,
    },
    /// How many data messages have arrived in all, and how many of them were wrong.
    Stopped {
        step: u32,
        messages: u64,
        wrong: u64,
    },
    End,
    /// Confirms `End` and `GiveUp`.
    Ended,
    /// The near side ends the session; no further stage follows.
    GiveUp,
}

impl ControlMessage {
    /// The length on a driver that carries only bytes.
    pub(crate) const BYTES: usize = 32;

    /// The first byte on a driver that carries data and control messages alike; data begins with 0.
    pub(crate) const MARK: u8 = 0xff;
    /// The length with that byte.
    pub(crate) const MARKED_BYTES: usize = 1 + Self::BYTES;

    /// The bytes behind the mark.
    pub(crate) fn marked(self) -> [u8; Self::MARKED_BYTES] {
        let mut bytes = [Self::MARK; Self::MARKED_BYTES];
        bytes[1..].copy_from_slice(&self.to_bytes());
        bytes
    }

    /// From a message that may be data.
    #[inline]
    pub(crate) fn from_marked(message: &[u8]) -> Option<ControlMessage> {
        let control = message.strip_prefix(&[Self::MARK]).filter(|control| control.len() == Self::BYTES);
        control.and_then(ControlMessage::from_bytes)
    }

    /// As the words of one of our messages: the kind in the low byte, small fields above it.
    pub(crate) fn to_words(self) -> [u64; 4] {
        let time = |time: Duration| time.as_nanos() as u64;
        let (head, step, [a, b, c]) = match self {
            ControlMessage::Hello(s) => {
                let head = 1 | (s.bench as u64) << 8 | (s.loss.0 as u64) << 16;
                (head, s.number, [s.size as u64, time(s.warm_up), time(s.time)])
            }
            ControlMessage::Ready { step } => (2, step, [0; 3]),
            ControlMessage::Got { step, messages, of } => (3, step, [messages, of.unwrap_or(0), 0]),
            ControlMessage::HowMany { step, sent } => (4, step, [sent, 0, 0]),
            ControlMessage::Counted { step, messages, bytes, time: t } => (5, step, [messages, bytes, time(t)]),
            ControlMessage::Stop { step } => (6, step, [0; 3]),
            ControlMessage::Stopped { step, messages, wrong } => (7, step, [messages, wrong, 0]),
            ControlMessage::End => (8, 0, [0; 3]),
            ControlMessage::Ended => (9, 0, [0; 3]),
            ControlMessage::GiveUp => (10, 0, [0; 3]),
        };
        [head | (step as u64) << 32, a, b, c]
    }

    /// From words; `None` if they are no control message.
    pub(crate) fn from_words([head, a, b, c]: [u64; 4]) -> Option<ControlMessage> {
        let (extra, step) = ((head >> 8) as u8, (head >> 32) as u32);
        Some(match head as u8 {
            // Both sides allocate memory for this size.
            1 => ControlMessage::Hello(Step {
                number: step,
                bench: Bench::from_code(extra)?,
                size: Some(a as usize).filter(|size| (1..=MAX_SIZE).contains(size))?,
                loss: Loss((head >> 16) as u16),
                warm_up: Duration::from_nanos(b),
                time: Duration::from_nanos(c),
            }),
            2 => ControlMessage::Ready { step },
            3 => ControlMessage::Got { step, messages: a, of: (b > 0).then_some(b) },
            4 => ControlMessage::HowMany { step, sent: a },
            5 => ControlMessage::Counted { step, messages: a, bytes: b, time: Duration::from_nanos(c) },
            6 => ControlMessage::Stop { step },
            7 => ControlMessage::Stopped { step, messages: a, wrong: b },
            8 => ControlMessage::End,
            9 => ControlMessage::Ended,
            10 => ControlMessage::GiveUp,
            _ => return None,
        })
    }

    /// In network byte order.
    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.to_words()) {
            chunk.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// From bytes; padding may follow.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<ControlMessage> {
        let mut words = [0; 4];
        for (word, from) in words.iter_mut().zip(bytes.first_chunk::<{ Self::BYTES }>()?.chunks_exact(8)) {
            *word = u64::from_be_bytes(from.try_into().ok()?);
        }
        ControlMessage::from_words(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<ControlMessage> {
        let (warm_up, time) = (Duration::from_millis(100), Duration::from_nanos(500_000_001));
        vec![
            ControlMessage::Hello(Step {
                number: u32::MAX,
                bench: Bench::Rate,
                size: 1500,
                loss: Loss(10_000),
                warm_up,
                time,
            }),
            ControlMessage::Ready { step: 1 },
            ControlMessage::Got { step: 2, messages: u64::MAX, of: Some(7) },
            ControlMessage::Got { step: 2, messages: 3, of: None },
            ControlMessage::HowMany { step: 3, sent: 9 },
            ControlMessage::Counted { step: 4, messages: 5, bytes: 6, time },
            ControlMessage::Stop { step: 5 },
            ControlMessage::Stopped { step: 6, messages: 7, wrong: 8 },
            ControlMessage::End,
            ControlMessage::Ended,
            ControlMessage::GiveUp,
        ]
    }

    #[test]
    fn control_messages_round_trip() {
        for control in examples() {
            assert_eq!(ControlMessage::from_bytes(&control.to_bytes()), Some(control));
        }
    }

    #[test]
    fn what_is_no_note_is_none() {
        assert_eq!(ControlMessage::from_bytes(&[0; 32]), None);
        assert_eq!(ControlMessage::from_bytes(&[255; 60]), None);
        assert_eq!(ControlMessage::from_bytes(&[1; 31]), None);
        assert_eq!(ControlMessage::from_words([1 | 9 << 8, 1, 0, 0]), None, "a bench that does not exist");
        for size in [0, MAX_SIZE as u64 + 1, u64::MAX] {
            assert_eq!(ControlMessage::from_words([1, size, 0, 0]), None, "messages of {size} bytes");
        }
    }
}
