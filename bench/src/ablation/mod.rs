//! The cost of each layer: Fast Messages' table 4 on today's hardware and kernel.
//!
//! The paper started with a loop that only moves frames, added one layer after another, and measured after each step.
//! Its LANai corresponds to our kernel and driver with their rings, its host to the thread that polls them.
//!
//! ```text
//!   whole        am-api: credits, numbers, acknowledgements, retransmission   via::am
//!   interpreted  each frame's header written, parsed, dispatched on  ┐
//!   buffers      a pool of owned frames, four queues                 ┘ queues
//!   hybrid       small messages copied, large ones made in place     ┐
//!   all_dma      every message made in place, in the frame           │
//!   streamed     bursts in each direction, one doorbell a turn       │ bare
//!   baseline     one frame in, one out, a doorbell each              ┘
//!   udp, tcp     the kernel, where the paper has the Myrinet API       via::udp, tcp
//! ```
//!
//! Over other transports some rows are missing: `buffers`, `interpreted` and `whole` run over each of them, the lower
//! rows where the transport carries bare frames.
//!
//! Each row is a driver, and all drivers take turns.

pub(crate) mod bare;
pub(crate) mod gather;
pub(crate) mod queues;
mod report;
pub(crate) mod row;
pub(crate) mod tcp;
#[cfg(test)]
mod tests;

use crate::deploy::joined::Joint;
use crate::size::Size;
use crate::via::Via;
use row::Row;

pub(crate) use report::Ablation;

/// A row of the table: its driver, its name, and what it adds.
pub(crate) type Layer = (Via, &'static str, &'static str);

/// From the bottom up; the kernel's sockets come last.
pub(crate) const LAYERS: [Layer; 9] = [
    (Via::Row(Row::Baseline), "baseline", "one frame in, one out per turn, a doorbell each"),
    (Via::Row(Row::Streamed), "streamed", "bursts in each direction, one doorbell a turn"),
    (Via::Row(Row::AllDma), "all_dma", "streamed, every payload made in place, in the frame"),
    (Via::Row(Row::Hybrid), "hybrid", "streamed, small payloads copied, large ones in place"),
    (Via::Row(Row::Buffers), "buffers", "hybrid + buffer management: a pool of frames, four queues"),
    (Via::Row(Row::Interpreted), "interpreted", "buffers + each header parsed and dispatched on, in the inner loop"),
    (Via::Am, "whole", "interpreted + flow control: credits, acknowledgements, am-api's calls"),
    (Via::Udp, "udp", "the kernel's UDP in the place of all that"),
    (Via::Row(Row::Tcp), "tcp", "the kernel's TCP in the place of all that"),
];

/// The rows that run over any transport.
pub(crate) const IN_MEMORY: [Via; 3] = [Via::Row(Row::Buffers), Via::Row(Row::Interpreted), Via::Am];

/// The rows of bare frames.
const BARE: [Via; 4] = [Via::Row(Row::Baseline), Via::Row(Row::Streamed), Via::Row(Row::AllDma), Via::Row(Row::Hybrid)];

/// The rows between two processes that this transport joins.
pub(crate) fn between(joint: Joint) -> Vec<Via> {
    let (below, beside): (&[Via], &[Via]) = match joint {
        Joint::Memif | Joint::VirtioUser => (&BARE, &[]),
        Joint::Udp => (&[], &[Via::Udp]),
        Joint::Tcp => (&[], &[Via::Row(Row::Tcp)]),
        Joint::Shm => (&[], &[]),
    };
    [below, &IN_MEMORY, beside].concat()
}

/// The drivers of all rows.
pub(crate) fn vias() -> Vec<Via> {
    LAYERS.iter().map(|(via, ..)| *via).collect()
}

/// The sizes that the three figures need: powers of four, and messages that fill their frames.
pub(crate) fn sizes() -> Vec<Size> {
    let powers = [1, 4, 16, 64, 128, 256, 512, 1024].map(Size::Swept);
    powers.into_iter().chain([1, 4, 16].map(|frames| Size::Filling(frames, 0))).collect()
}
