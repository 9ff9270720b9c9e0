//! The lower rows: bare frames over AF_XDP or DPDK. Each row adds one thing to the row below it.

use super::Row;
use crate::batching::Batching;
use crate::content::{Content, MADE};
use crate::error::Error;
use crate::measure::{Arrived, Note, Port};
use crate::via::raw::{Device, RawPort};

/// `hybrid` copies payloads up to this length: four cache lines.
const COPIED: usize = 256;

/// One side of a row.
pub(crate) struct Bare<D> {
    raw: RawPort<D>,
    row: Row,
    /// The user's memory, which `hybrid` copies from.
    payload: Vec<u8>,
}

impl<D: Device> Bare<D> {
    pub(crate) fn new(raw: RawPort<D>, row: Row) -> Bare<D> {
        Bare { raw, row, payload: Vec::new() }
    }

    /// The limit of frames in a turn, in each direction.
    #[inline]
    fn burst(&self, wanted: usize) -> usize {
        if self.row == Row::Baseline { wanted.min(1) } else { wanted }
    }
}

/// The content that `hybrid` sends.
pub(crate) fn hybrid(size: usize) -> Content {
    if size <= COPIED { Content::of(size) } else { Content::made(size) }
}

/// Fill a frame's payload as `hybrid` does: copy it, or build it in place.
#[inline]
pub(crate) fn provide(to: &mut [u8], payload: &[u8]) {
    if to.len() <= COPIED {
        to.copy_from_slice(payload);
    } else {
        to.fill(MADE);
    }
}

impl<D: Device> Port for Bare<D> {
    fn mode(&self) -> &str {
        self.raw.mode()
    }

    fn xdp(&self) -> Option<&'static str> {
        self.raw.xdp()
    }

    fn framing(&self) -> &'static str {
        self.raw.framing()
    }

    fn largest(&self) -> usize {
        self.raw.largest()
    }

    fn prepare(&mut self, size: usize) -> Result<(), Error> {
        self.raw.prepare(size)?;
        let content = match self.row {
            Row::AllDma => Content::made(size),
            Row::Hybrid => hybrid(size),
            _ => return Ok(()),
        };
        self.payload = content.bytes().to_vec();
        self.raw.expect(content);
        Ok(())
    }

    fn batching(&self) -> Batching {
        if self.row == Row::Baseline { Batching::Single } else { self.raw.batching() }
    }

    fn echo(&mut self, on: bool) {
        self.raw.echo(on);
    }

    #[inline]
    fn send(&mut self, count: usize) -> Result<usize, Error> {
        let payload = &self.payload;
        match self.row {
            Row::AllDma => self.raw.send_each(count, &mut |to| to.fill(MADE)),
            Row::Hybrid => self.raw.send_each(count, &mut |to| provide(to, payload)),
            _ => self.raw.send(self.burst(count)),
        }
    }

    #[inline]
    fn receive(&mut self, budget: usize) -> Result<Arrived, Error> {
        self.raw.receive(self.burst(budget))
    }

    fn tell(&mut self, note: Note) -> Result<(), Error> {
        self.raw.tell(note)
    }

    fn window(&self) -> Option<u64> {
        self.raw.window()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_payloads_are_copied_and_large_ones_made() {
        for (size, made) in [(COPIED, false), (COPIED + 1, true)] {
            let mut frame = vec![0; size];
            provide(&mut frame, &vec![7; size]);
            assert_eq!(frame, vec![if made { MADE } else { 7 }; size]);
            // The receiver expects the same content.
            let mut sent = vec![0; size];
            provide(&mut sent, hybrid(size).bytes());
            assert_eq!(sent, hybrid(size).bytes());
        }
    }
}
