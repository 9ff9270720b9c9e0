//! A cache line that two processes pass back and forth: the least cost of a round trip through shared memory.
//!
//! A message is a counter on the sender's line. Control messages have lines of their own. A control message finds no
//! room until the one before has been read.

use std::fs::{File, remove_file};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use am_ring::lane::Shared;
use am_shm::shared_lines;

use crate::channel::{Arrived, Channel, ChannelInfo, ControlMessage};
use crate::error::Error;
use crate::plan::Side;
use crate::watch::{PEER_TIMEOUT, Watch};

/// The bytes of a line besides its counter.
const MAX_PAYLOAD: usize = 60;
/// The bytes of a line that are transferred: its counter.
const WORD: usize = 4;
/// How often the far side looks for the lines.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);

/// The offsets of one side's lines, each on two, because processors fetch them in pairs; those of the other side follow.
const COUNT: usize = 0;
const CONTROL: usize = 128;
const SEEN: usize = 256;
const EACH: usize = 384;

/// The words of a control message, behind its counter.
const WORDS: usize = ControlMessage::BYTES / 4;

pub(crate) struct Cacheline {
    info: ChannelInfo,
    lines: Shared,
    /// The first of our lines, and of the other side's.
    own: usize,
    other: usize,
    echo: bool,
    sent: u32,
    seen: u32,
    controls_sent: u32,
    last_seen: u32,
}

impl Cacheline {
    /// Open this side on lines of this name. Each driver has new lines.
    pub(crate) fn open(side: Side, name: &str, watch: &Watch) -> Result<Cacheline, Error> {
        let path = PathBuf::from(format!("/dev/shm/{name}.line"));
        let open = || {
            let mut file = File::options();
            file.read(true).write(true).mode(0o600).create_new(side == Side::Near);
            let lines = file.open(&path).and_then(|file| match side {
                Side::Near => file
                    .set_len(2 * EACH as u64)
                    .and_then(|()| shared_lines(&file, 2 * EACH))
                    .inspect_err(|_| _ = remove_file(&path)),
                // No third process has to find the file.
                Side::Far => shared_lines(&file, 2 * EACH).and_then(|lines| remove_file(&path).map(|()| lines)),
            });
            lines.map_err(Error::system("sharing a line of the cache in /dev/shm"))
        };
        // The near side makes them.
        let lines = watch.retry(PEER_TIMEOUT, RETRY_INTERVAL, |_| side == Side::Far, open)?;
        let (own, other) = if side == Side::Near { (0, EACH) } else { (EACH, 0) };
        let info = ChannelInfo::new("shared memory, one line", MAX_PAYLOAD);
        Ok(Cacheline { info, lines, own, other, echo: false, sent: 0, seen: 0, controls_sent: 0, last_seen: 0 })
    }

    fn control(&mut self) -> Option<ControlMessage> {
        let controls_sent = self.lines.word(self.other + CONTROL).load(Acquire);
        if controls_sent == self.last_seen {
            return None;
        }
        let mut bytes = [0; ControlMessage::BYTES];
        for (nth, word) in bytes.chunks_exact_mut(4).enumerate() {
            word.copy_from_slice(&self.lines.word(self.other + CONTROL + WORD * (1 + nth)).load(Relaxed).to_ne_bytes());
        }
        self.last_seen = controls_sent;
        self.lines.word(self.own + SEEN).store(controls_sent, Release);
        ControlMessage::from_bytes(&bytes)
    }
}

impl Channel for Cacheline {
    fn info(&self) -> &ChannelInfo {
        &self.info
    }

    fn prepare(&mut self, _: usize) -> Result<(), Error> {
        Ok(())
    }

    fn echo(&mut self, on: bool) {
        self.echo = on;
    }

    /// Only one message is in flight: that is what is measured.
    #[inline]
    fn send(&mut self, count: usize) -> Result<usize, Error> {
        self.sent = self.sent.wrapping_add(count as u32);
        self.lines.word(self.own + COUNT).store(self.sent, Release);
        Ok(count)
    }

    #[inline]
    fn receive(&mut self, _: usize) -> Result<Arrived, Error> {
        let now = self.lines.word(self.other + COUNT).load(Acquire);
        let messages = u64::from(now.wrapping_sub(self.seen));
        if messages == 0 {
            return Ok(Arrived { control: self.control(), ..Arrived::default() });
        }
        self.seen = now;
        if self.echo {
            self.send(messages as usize)?;
        }
        Ok(Arrived { messages, bytes: messages * WORD as u64, ..Arrived::default() })
    }

    fn send_control(&mut self, control: ControlMessage) -> Result<(), Error> {
        if self.lines.word(self.other + SEEN).load(Acquire) != self.controls_sent {
            return Ok(());
        }
        for (nth, word) in control.to_bytes().as_chunks::<4>().0.iter().enumerate().take(WORDS) {
            self.lines.word(self.own + CONTROL + WORD * (1 + nth)).store(u32::from_ne_bytes(*word), Relaxed);
        }
        self.controls_sent = self.controls_sent.wrapping_add(1);
        self.lines.word(self.own + CONTROL).store(self.controls_sent, Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_echoes_and_controls() {
        let (name, watch) = (format!("am-bench-test-{}", std::process::id()), Watch::default());
        let mut near = Cacheline::open(Side::Near, &name, &watch).unwrap();
        let mut far = Cacheline::open(Side::Far, &name, &watch).unwrap();
        assert!(!PathBuf::from(format!("/dev/shm/{name}.line")).exists(), "nothing is left while it runs");
        for channel in [&mut near, &mut far] {
            channel.prepare(16).unwrap();
        }
        for control in [ControlMessage::Stop { step: 7 }, ControlMessage::End] {
            near.send_control(control).unwrap();
            near.send_control(ControlMessage::GiveUp).unwrap();
            assert_eq!(far.receive(1).unwrap().control, Some(control), "for the second there was no room");
            assert_eq!(far.receive(1).unwrap(), Arrived::default());
        }
        far.echo(true);
        for _ in 0..3 {
            near.send(1).unwrap();
            assert_eq!(far.receive(1).unwrap(), Arrived { messages: 1, bytes: WORD as u64, wrong: 0, control: None });
            assert_eq!(near.receive(1).unwrap().messages, 1);
        }
        assert_eq!(near.receive(1).unwrap(), Arrived::default());
    }
}
