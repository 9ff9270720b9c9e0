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

use clap::Args;
use serde_json::json;

use am_measure::deploy::{LocalTransport, is_interface};
use am_measure::options::{CoalesceOption, Origin, usage};
use am_measure::report::{Cell, Column, Report, short, tenths, times};
use am_measure::sweep::{Curve, Point, R_INF, Sweep, T0};
use am_measure::{Common, Cores, Driver, Error, Measured, Place, Size, Topology, Watch};

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
        // The sizes that the three figures need: powers of four, and messages that fill their frames.
        let powers = [1, 4, 16, 64, 128, 256, 512, 1024].map(Size::Swept);
        let sizes = powers.into_iter().chain([1, 4, 16].map(|frames| Size::Filling(frames, 0))).collect();
        let session = run.bandwidth(sizes, &layers(topology))?;
        let table = Ablation::new(&session.all, session.cores);
        run.print.publish(table.report(), &Origin::new(topology.transport(), session.mtu))?;
        session.end
    }
}

/// A row of the table: its driver, its name, and what it adds.
type Layer = (Driver, &'static str, &'static str);

/// From the bottom up; the kernel's sockets come last.
const LAYERS: [Layer; 9] = [
    (Driver::Baseline, "baseline", "one frame in and one out per turn, a doorbell each"),
    (Driver::Streamed, "streamed", "bursts in each direction, one doorbell a turn"),
    (Driver::AllDma, "all_dma", "streamed, every payload built in the frame"),
    (Driver::Hybrid, "hybrid", "streamed, small payloads copied, large ones built in the frame"),
    (Driver::Buffers, "buffers", "hybrid + buffer management: a pool of frames, four queues"),
    (Driver::Interpreted, "interpreted", "buffers + each header parsed and dispatched on, in the inner loop"),
    (Driver::Am, "whole", "interpreted + flow control: credits, acknowledgements, am-api's calls"),
    (Driver::Udp, "udp", "the kernel's UDP instead of all that"),
    (Driver::Tcp, "tcp", "the kernel's TCP instead of all that"),
];

/// The rows that run over any transport.
const IN_MEMORY: [Driver; 3] = [Driver::Buffers, Driver::Interpreted, Driver::Am];

/// The rows of bare frames.
const BARE: [Driver; 4] = [Driver::Baseline, Driver::Streamed, Driver::AllDma, Driver::Hybrid];

/// The rows that exist there.
fn layers(topology: &Topology) -> Vec<Driver> {
    use LocalTransport::{Memif, Shm, Tcp, Udp, VirtioUser};
    let (below, beside): (&[Driver], &[Driver]) = match topology {
        Topology::Veth(..) | Topology::Peer { .. } => return LAYERS.iter().map(|(driver, ..)| *driver).collect(),
        Topology::Processes(Memif | VirtioUser, _) => (&BARE, &[]),
        Topology::Processes(Udp, _) => (&[], &[Driver::Udp]),
        Topology::Processes(Tcp, _) => (&[], &[Driver::Tcp]),
        Topology::Processes(Shm, _) | Topology::Loopback | Topology::Sim(_) => (&[], &[]),
    };
    [below, &IN_MEMORY, beside].concat()
}

/// The meaning of the paper's three figures.
const LEGEND: &str = concat!(
    "  t0     start-up time (\"startup overhead\" in the paper's table 2): the time of an empty message in a stream,\n",
    "         the intercept of time over size. It is not half a round trip: the paper has 25 us for that, and a t0 of\n",
    "         4.1 us; here half a round trip is half of `am-bench latency`\n",
    "  r_inf  bytes a second of infinitely long messages, from messages that fill all of their frames\n",
    "  n1/2   the size that reaches half of r_inf, read off the curve\n",
    "  All rows send the same frames and sizes in the same loops. Rows above `whole` have only the bench's window for\n",
    "  flow control, and may lose frames; `whole` sends one message a frame, as they do.\n\n",
);

#[derive(Debug)]
pub(crate) struct Ablation(Sweep);

impl Ablation {
    pub(crate) fn new(all: &[Measured], cores: Cores) -> Ablation {
        Ablation(Sweep::new(all, cores))
    }

    fn rows(&self) -> Vec<(&Layer, &Curve)> {
        let curve = |layer: &Layer| self.0.curves.iter().find(|curve| curve.first.driver == layer.0);
        LAYERS.iter().filter_map(|layer| Some((layer, curve(layer)?))).collect()
    }

    /// The two ratios that state the cost of all layers together, if both rows ran.
    fn ratios(&self) -> [Option<f64>; 2] {
        [T0, R_INF].map(|figure| self.0.ratio(Driver::Am, Driver::Hybrid, &figure))
    }

    fn report(&self) -> Report {
        let mut report = Report::new("ablation", "ablation: what each layer adds, after Fast Messages' table 4");
        report.rows(&columns(), &self.rows());
        if let [Some(t0), Some(r_inf)] = self.ratios().map(|ratio| ratio.map(times)) {
            report.say(format_args!("  whole has {t0} times the t0 of hybrid, and {r_inf} times its r_inf\n"));
        }
        report.text += LEGEND;
        self.0.footer("rows", &mut report);
        let [t0, r_inf] = self.ratios().map(|ratio| ratio.map(short));
        report
            .summary(json!({ "whole_over_hybrid_t0": t0, "whole_over_hybrid_r_inf": r_inf, "rounds": self.0.rounds }));
        report
    }
}

fn columns<'a>() -> [Column<(&'a Layer, &'a Curve)>; 12] {
    [
        ("row", "row", |(layer, _)| Cell::text(layer.1)),
        (">t0", "t0_ns", |(_, curve)| curve.t0()),
        (">r_inf", "r_inf_bytes_per_s", |(_, curve)| curve.r_inf()),
        (">n1/2", "n_half_bytes", |(_, curve)| curve.n_half()),
        (">lost", "lost", |(_, curve)| Cell::Count(curve.lost())),
        ("mode", "mode", |(_, curve)| Cell::text(&curve.first.mode)),
        ("", "framing", |(_, curve)| Cell::text(curve.first.framing)),
        ("", "batching", |(_, curve)| Cell::Json(json!(curve.first.batching))),
        ("what it is", "what", |(layer, _)| Cell::text(layer.2)),
        ("", "range", |(_, curve)| Cell::Json(json!(curve.range()))),
        ("", "curve", |(_, curve)| {
            let point = |point: &Point| json!({ "size": point.size, "ns": tenths(point.ns) });
            Cell::Json(curve.points.iter().map(point).collect())
        }),
        ("", "xdp", |(_, curve)| Cell::xdp(curve.first.xdp)),
    ]
}
