//! The cost of each layer: Fast Messages' table 4 on today's hardware and kernel.
//!
//! The paper started with a loop that only moves frames, added one layer after another, and measured after each step.
//! Its LANai corresponds to our kernel and driver with their rings, its host to the thread that polls them.
//!
//! ```text
//!   whole        am-api: credits, numbers, acknowledgements, retransmission   drivers::am
//!   interpreted  each frame's header written, parsed, dispatched on  ┐
//!   buffers      a pool of owned frames, four queues                 ┘ drivers::queues
//!   hybrid       small messages copied, large ones made in place     ┐
//!   all_dma      every message made in place, in the frame           │
//!   streamed     bursts in each direction, one doorbell a turn       │ drivers::raw
//!   baseline     one frame in, one out, a doorbell each              ┘
//!   udp, tcp     the kernel, where the paper has the Myrinet API       drivers::udp, tcp
//! ```
//!
//! Over other transports some rows are missing: `buffers`, `interpreted` and `whole` run over each of them, the lower
//! rows where the transport carries bare frames.
//!
//! Each row is a driver, and all drivers take turns.

mod report;

use clap::Args;

use am_measure::deploy::open::is_interface;
use am_measure::deploy::processes::LocalTransport;
use am_measure::driver::{Driver, Row};
use am_measure::error::Error;
use am_measure::options::{CoalesceOption, usage};
use am_measure::origin::Origin;
use am_measure::run::Common;
use am_measure::size::Size;
use am_measure::topology::{Place, Topology};
use am_measure::watch::Watch;

use report::Ablation;

/// The options of `ablation`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("hosts", |hosts| hosts.help("Run both hosts on this machine [default: veth]")))]
#[command(mut_arg("time", |time| time.default_value("0.05")))]
pub struct AblationArgs {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    coalesce: CoalesceOption,
}

impl AblationArgs {
    /// Where it measures, after all checks.
    pub fn topology(&self) -> Result<Topology, Error> {
        self.common.print.check()?;
        if self.place.peer.is_some() && !is_interface(self.place.end.on.as_deref().unwrap_or_default()) {
            return Err(usage(
                "between machines ablation measures AF_XDP: give --on xdp:INTERFACE; for other transports use --hosts on one \
                 machine",
            ));
        }
        self.place.or_cable(&self.common.open)
    }

    /// Measure the cost of each layer, and print it.
    pub fn run(&self, watch: &Watch) -> Result<(), Error> {
        let topology = &self.topology()?;
        let run = self.common.run(topology, &[], self.place.cores(), watch).coalesce(&self.coalesce);
        let session = run.bandwidth(sizes(), &layers(topology))?;
        let table = Ablation::new(&session.all, session.cores);
        run.print.publish(table.json(), || table.table(), &Origin::new(topology.transport(), session.mtu))?;
        session.end
    }
}

/// A row of the table: its driver, its name, and what it adds.
pub(crate) type Layer = (Driver, &'static str, &'static str);

/// From the bottom up; the kernel's sockets come last.
pub(crate) const LAYERS: [Layer; 9] = [
    (Driver::Row(Row::Baseline), "baseline", "one frame in and one out per turn, a doorbell each"),
    (Driver::Row(Row::Streamed), "streamed", "bursts in each direction, one doorbell a turn"),
    (Driver::Row(Row::AllDma), "all_dma", "streamed, every payload built in the frame"),
    (Driver::Row(Row::Hybrid), "hybrid", "streamed, small payloads copied, large ones built in the frame"),
    (Driver::Row(Row::Buffers), "buffers", "hybrid + buffer management: a pool of frames, four queues"),
    (Driver::Row(Row::Interpreted), "interpreted", "buffers + each header parsed and dispatched on, in the inner loop"),
    (Driver::Am, "whole", "interpreted + flow control: credits, acknowledgements, am-api's calls"),
    (Driver::Udp, "udp", "the kernel's UDP instead of all that"),
    (Driver::Row(Row::Tcp), "tcp", "the kernel's TCP instead of all that"),
];

/// The rows that run over any transport.
pub(crate) const IN_MEMORY: [Driver; 3] = [Driver::Row(Row::Buffers), Driver::Row(Row::Interpreted), Driver::Am];

/// The rows of bare frames.
const BARE: [Driver; 4] =
    [Driver::Row(Row::Baseline), Driver::Row(Row::Streamed), Driver::Row(Row::AllDma), Driver::Row(Row::Hybrid)];

/// The rows that exist there.
fn layers(topology: &Topology) -> Vec<Driver> {
    match topology {
        Topology::Veth(_) | Topology::Wire(..) | Topology::Peer { .. } => {
            LAYERS.iter().map(|(driver, ..)| *driver).collect()
        }
        Topology::Processes(local_transport, _) => between(*local_transport),
        Topology::Loopback | Topology::Sim(_) => IN_MEMORY.to_vec(),
    }
}

/// The rows between two processes that this transport joins.
fn between(local_transport: LocalTransport) -> Vec<Driver> {
    let (below, beside): (&[Driver], &[Driver]) = match local_transport {
        LocalTransport::Memif | LocalTransport::VirtioUser => (&BARE, &[]),
        LocalTransport::Udp => (&[], &[Driver::Udp]),
        LocalTransport::Tcp => (&[], &[Driver::Row(Row::Tcp)]),
        LocalTransport::Shm => (&[], &[]),
    };
    [below, &IN_MEMORY, beside].concat()
}

/// The sizes that the three figures need: powers of four, and messages that fill their frames.
fn sizes() -> Vec<Size> {
    let powers = [1, 4, 16, 64, 128, 256, 512, 1024].map(Size::Swept);
    powers.into_iter().chain([1, 4, 16].map(|frames| Size::Filling(frames, 0))).collect()
}
