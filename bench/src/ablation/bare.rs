//! The lower rows: bare frames, by AF_XDP or DPDK, with one thing more at a time.

use super::Row;
use crate::error::Error;
use crate::measure::{Arrived, Note, Port};
use crate::via::raw::{Device, RawPort};

/// In `hybrid` payloads up to here are copied: four cache lines.
const COPIED: usize = 256;

/// One side of a row.
pub(crate) struct Bare<D> {
    raw: RawPort<D>,
    row: Row,
    /// The user's memory.
    payload: Vec<u8>,
    /// Messages so far: what is made in place is different each time.
    made: u8,
}

impl<D: Device> Bare<D> {
    /// This row over frames with no protocol.
    pub(crate) fn new(raw: RawPort<D>, row: Row) -> Bare<D> {
        Bare { raw, row, payload: Vec::new(), made: 0 }
    }

    /// The most frames of a turn, in each direction.
    #[inline]
    fn burst(&self, wanted: usize) -> usize {
        if self.row == Row::Baseline { wanted.min(1) } else { wanted }
    }
}

/// The user's bytes into a frame, as `hybrid` does: copied, or made there.
#[inline]
pub(crate) fn provide(to: &mut [u8], payload: &[u8], made: &mut u8) {
    if to.len() <= COPIED {
        to.copy_from_slice(payload);
    } else {
        make(to, made);
    }
}

#[inline]
fn make(to: &mut [u8], made: &mut u8) {
    *made = made.wrapping_add(1);
    to.fill(*made);
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
        self.payload.resize(size, 0);
        self.raw.prepare(size)
    }

    fn echo(&mut self, on: bool) {
        self.raw.echo(on);
    }

    #[inline]
    fn send(&mut self, count: usize) -> Result<usize, Error> {
        let (payload, made) = (&self.payload, &mut self.made);
        match self.row {
            Row::AllDma => self.raw.send_each(count, &mut |to| make(to, made)),
            Row::Hybrid => self.raw.send_each(count, &mut |to| provide(to, payload, made)),
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
        let (user, mut made) = (vec![7; 2 * COPIED], 0);
        let mut frame = vec![0; COPIED];
        provide(&mut frame, &user[..COPIED], &mut made);
        assert_eq!((frame, made), (vec![7; COPIED], 0));
        let mut frame = vec![0; COPIED + 1];
        provide(&mut frame, &user[..=COPIED], &mut made);
        assert_eq!((frame, made), (vec![1; COPIED + 1], 1));
    }
}
