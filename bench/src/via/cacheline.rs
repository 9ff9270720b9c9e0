//! A cache line that two processes pass back and forth: the least cost of a round trip through shared memory.
//!
//! A message is a counter on the sender's line. Control messages have lines of their own. A control message finds no
//! room until the one before has been read.

use std::path::PathBuf;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread::sleep;
use std::time::{Duration, Instant};

use am_shm::Lines;

use crate::error::Error;
use crate::measure::{Arrived, Note, Port};
use crate::side::Side;
use crate::via::Via;
use crate::watch::Watch;

/// The bytes of a line besides its counter.
const LARGEST: usize = 60;
/// The bytes of a line that are transferred: its counter.
const WORD: u64 = 4;
/// How long the near side may take to create the lines, and how often the far side looks for them.
const THERE: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(2);

/// The lines of one side, from its first; those of the other side follow.
const COUNT: usize = 0;
const NOTE: usize = 1;
const SEEN: usize = 2;
const EACH: usize = 3;

/// The words of a control message, behind its counter.
const WORDS: usize = Note::BYTES / 4;

/// One side of the driver.
pub(crate) struct Cacheline {
    lines: Lines,
    /// The first of our lines, and of the other side's.
    own: usize,
    other: usize,
    echo: bool,
    sent: u32,
    seen: u32,
    told: u32,
    heard: u32,
}

impl Cacheline {
    /// Open this side on lines of this name. Each driver has new lines.
    ///
    /// # Errors
    /// The lines cannot be created or shared.
    pub(crate) fn open(side: Side, name: &str, watch: &Watch) -> Result<Cacheline, Error> {
        let path = PathBuf::from(format!("/dev/shm/{name}.line"));
        let begin = Instant::now();
        let lines = loop {
            watch.check()?;
            let lines = match side {
                Side::Near => Lines::make(&path, 2 * EACH),
                Side::Far => Lines::take(&path, 2 * EACH),
            };
            match lines {
                Err(_) if side == Side::Far && begin.elapsed() < THERE => sleep(AGAIN),
                lines => break lines.map_err(Error::system("sharing a line of the cache in /dev/shm"))?,
            }
        };
        let (own, other) = if side == Side::Near { (0, EACH) } else { (EACH, 0) };
        Ok(Cacheline { lines, own, other, echo: false, sent: 0, seen: 0, told: 0, heard: 0 })
    }

    fn note(&mut self) -> Option<Note> {
        let told = self.lines.word(self.other + NOTE, 0).load(Acquire);
        if told == self.heard {
            return None;
        }
        let mut bytes = [0; Note::BYTES];
        for (nth, word) in bytes.chunks_exact_mut(4).enumerate() {
            word.copy_from_slice(&self.lines.word(self.other + NOTE, 1 + nth).load(Relaxed).to_ne_bytes());
        }
        self.heard = told;
        self.lines.word(self.own + SEEN, 0).store(told, Release);
        Note::from_bytes(&bytes)
    }
}

impl Port for Cacheline {
    fn mode(&self) -> &str {
        "shared memory, one line"
    }

    fn largest(&self) -> usize {
        LARGEST
    }

    fn prepare(&mut self, size: usize) -> Result<(), Error> {
        if size > LARGEST {
            return Err(Error::TooLarge { via: Via::Cacheline, size, most: LARGEST });
        }
        Ok(())
    }

    fn echo(&mut self, on: bool) {
        self.echo = on;
    }

    /// Only one message is in flight: that is what is measured.
    #[inline]
    fn send(&mut self, count: usize) -> Result<usize, Error> {
        self.sent = self.sent.wrapping_add(count as u32);
        self.lines.word(self.own + COUNT, 0).store(self.sent, Release);
        Ok(count)
    }

    #[inline]
    fn receive(&mut self, _: usize) -> Result<Arrived, Error> {
        let now = self.lines.word(self.other + COUNT, 0).load(Acquire);
        let messages = u64::from(now.wrapping_sub(self.seen));
        if messages == 0 {
            return Ok(Arrived { note: self.note(), ..Arrived::default() });
        }
        self.seen = now;
        if self.echo {
            self.send(messages as usize)?;
        }
        Ok(Arrived { messages, bytes: messages * WORD, ..Arrived::default() })
    }

    fn tell(&mut self, note: Note) -> Result<(), Error> {
        if self.lines.word(self.other + SEEN, 0).load(Acquire) != self.told {
            return Ok(());
        }
        for (nth, word) in note.to_bytes().as_chunks::<4>().0.iter().enumerate().take(WORDS) {
            self.lines.word(self.own + NOTE, 1 + nth).store(u32::from_ne_bytes(*word), Relaxed);
        }
        self.told = self.told.wrapping_add(1);
        self.lines.word(self.own + NOTE, 0).store(self.told, Release);
        Ok(())
    }

    fn window(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_echoes_and_notes() {
        let (name, watch) = (format!("am-bench-test-{}", std::process::id()), Watch::default());
        let mut near = Cacheline::open(Side::Near, &name, &watch).unwrap();
        let mut far = Cacheline::open(Side::Far, &name, &watch).unwrap();
        assert!(!PathBuf::from(format!("/dev/shm/{name}.line")).exists(), "nothing is left while it runs");
        for port in [&mut near, &mut far] {
            port.prepare(16).unwrap();
            assert!(port.prepare(LARGEST + 1).is_err());
        }
        for note in [Note::Stop { step: 7 }, Note::End] {
            near.tell(note).unwrap();
            near.tell(Note::GiveUp).unwrap();
            assert_eq!(far.receive(1).unwrap().note, Some(note), "for the second there was no room");
            assert_eq!(far.receive(1).unwrap(), Arrived::default());
        }
        far.echo(true);
        for _ in 0..3 {
            near.send(1).unwrap();
            assert_eq!(far.receive(1).unwrap(), Arrived { messages: 1, bytes: WORD, wrong: 0, note: None });
            assert_eq!(near.receive(1).unwrap().messages, 1);
        }
        assert_eq!(near.receive(1).unwrap(), Arrived::default());
    }
}
