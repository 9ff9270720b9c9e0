//! The lower rows: bare frames over AF_XDP or DPDK. Each row adds one thing to the row below it.

use super::Row;
use crate::batching::Batching;
use crate::content::{Content, IN_PLACE_BYTE};
use crate::driver::raw::{Device, RawChannel};
use crate::error::Error;
use crate::measure::{Arrived, Channel, ChannelInfo, ControlMessage};

/// `hybrid` copies payloads up to this length: four cache lines.
const MAX_COPIED: usize = 256;

/// One side of a row.
pub(crate) struct Bare<D> {
    raw: RawChannel<D>,
    row: Row,
    /// The user's memory, which `hybrid` copies from.
    payload: Vec<u8>,
}

impl<D: Device> Bare<D> {
    pub(crate) fn new(raw: RawChannel<D>, row: Row) -> Bare<D> {
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
    if size <= MAX_COPIED { Content::of(size) } else { Content::in_place(size) }
}

/// Fill a frame's payload as `hybrid` does: copy it, or build it in place.
#[inline]
pub(crate) fn provide(to: &mut [u8], payload: &[u8]) {
    if to.len() <= MAX_COPIED {
        to.copy_from_slice(payload);
    } else {
        to.fill(IN_PLACE_BYTE);
    }
}

impl<D: Device> Channel for Bare<D> {
    fn info(&self) -> ChannelInfo<'_> {
        let info = self.raw.info();
        let batching = if self.row == Row::Baseline { Batching::Single } else { info.batching };
        ChannelInfo { batching, ..info }
    }

    fn prepare(&mut self, size: usize) -> Result<(), Error> {
        self.raw.prepare(size)?;
        let content = match self.row {
            Row::AllDma => Content::in_place(size),
            Row::Hybrid => hybrid(size),
            _ => return Ok(()),
        };
        self.payload = content.bytes().to_vec();
        self.raw.expect(content);
        Ok(())
    }

    fn echo(&mut self, on: bool) {
        self.raw.echo(on);
    }

    #[inline]
    fn send(&mut self, count: usize) -> Result<usize, Error> {
        let payload = &self.payload;
        match self.row {
            Row::AllDma => self.raw.send_each(count, &mut |to| to.fill(IN_PLACE_BYTE)),
            Row::Hybrid => self.raw.send_each(count, &mut |to| provide(to, payload)),
            _ => self.raw.send(self.burst(count)),
        }
    }

    #[inline]
    fn receive(&mut self, budget: usize) -> Result<Arrived, Error> {
        self.raw.receive(self.burst(budget))
    }

    fn send_control(&mut self, control: ControlMessage) -> Result<(), Error> {
        self.raw.send_control(control)
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
        for (size, made) in [(MAX_COPIED, false), (MAX_COPIED + 1, true)] {
            let mut frame = vec![0; size];
            provide(&mut frame, &vec![7; size]);
            assert_eq!(frame, vec![if made { IN_PLACE_BYTE } else { 7 }; size]);
            // The receiver expects the same content.
            let mut sent = vec![0; size];
            provide(&mut sent, hybrid(size).bytes());
            assert_eq!(sent, hybrid(size).bytes());
        }
    }
}
