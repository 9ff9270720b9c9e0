//! The phases of a message (Directed Point, section 6.3): what the sender's processor does, what the wire does, what the
//! receiver's processor does, each measured apart.
//!
//! ```text
//!   near                                        far
//!    clock ─▶ write ─▶ clock        send         waits, and does not look at its device
//!    ═══════════ a frame ══════════▶             some time passes: the frame waits in the ring
//!                                   receive      clock ─▶ read ─▶ clock ─▶ every byte touched ─▶ clock
//!
//!    clock ─▶ write, read, touched ◀═▶ read, touched, write ─▶ clock    a round trip
//!    transfer = round trip / 2 - send - receive, of one run
//! ```
//!
//! *Warm*: the same was done just before. *Cold*: memory larger than the last cache was read just before, on the same core.
//! `exchange` has the two sides, `copies` the memory copies (the paper's figure 7), `calls` the cost of the calls alone.

mod caches;
mod calls;
mod copies;
mod exchange;
mod report;

use std::thread::ScopedJoinHandle;

use am_api::Idle;
use am_dp::Nid;
use clap::Args;

use am_measure::deploy::{self, Sides};
use am_measure::drivers::{self, Vertex};
use am_measure::options::{self, OpenOptions, PlotOption, Print, RoundsOption, only, usage};
use am_measure::{
    Cores, DriverOptions, Error, FramingArg, Here, HostsArg, Progress, Side, Spread, Topology, Watch, median, pin,
};
use caches::{Caches, Evictor};
use calls::Call;
use copies::Copies;
use exchange::{Near, Sampled, Shared, serve};

/// The options of `phases`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("hosts", |hosts| hosts.value_parser(only(HostsArg::APART)).help(
    "Run both sides in threads of this process, over this transport [default: veth (where rights allow), shm and udp in turn]")))]
// Frames of one length, so that a message takes as many over each transport.
#[command(mut_arg("mtu", |mtu| mtu.default_value("1500").help(
    "Payload bytes of a frame over each transport, within its limits")))]
#[command(mut_arg("framing", |framing| framing.default_value("bare").help("Where our messages carry their header")))]
#[command(mut_arg("rounds", |rounds| rounds.default_value("5").help(
    "How many turns each transport takes; figures are of all rounds' calls")))]
pub struct PhasesArgs {
    #[command(flatten)]
    here: Here,
    // Within a frame of 1500 bytes, filling one, and beyond.
    /// Payload bytes of a message, up to 64K
    #[arg(long, value_delimiter = ',', default_value = "1,16,64,256,1K,1500,4K,16K", value_parser = size,
          value_name = "BYTES,...", help_heading = "What")]
    size: Vec<usize>,
    #[command(flatten)]
    open: OpenOptions,
    #[command(flatten)]
    rounds: RoundsOption,
    #[command(flatten)]
    print: Print,
    #[command(flatten)]
    plot: PlotOption,
}

fn size(text: &str) -> Result<usize, String> {
    options::message(text).and_then(|size| if size <= MAX_SIZE { Ok(size) } else { Err(format!("up to {MAX_SIZE}")) })
}

impl PhasesArgs {
    /// Over the transport that is asked for, or over those that most hosts have.
    pub fn topologies(&self) -> Result<Vec<Topology>, Error> {
        self.plot.check(&self.print)?;
        let hosts = match self.here.hosts {
            Some(hosts) => vec![hosts],
            None if self.open.xdp.is_some() => return Err(usage("--xdp is for interfaces: add --hosts veth")),
            None => vec![HostsArg::Veth, HostsArg::Shm, HostsArg::Udp],
        };
        hosts.into_iter().map(|hosts| self.here.on(hosts, "", &self.open, &[])).collect()
    }

    /// Measure the phases of messages over these transports. Print them, and plot them if asked.
    pub fn run(&self, watch: &Watch) -> Result<(), Error> {
        let topologies = self.topologies()?;
        let (how, cores) = (self.open.how(FramingArg::Bare), self.here.cores.both()?);
        let mut sizes = self.size.clone();
        sizes.sort_unstable();
        let order = Order { how, sizes, rounds: self.rounds.rounds, cores };
        let phases = measure(&topologies, order, self.print.json, watch)?;
        self.print.publish(phases.report(), &Topology::origin(&topologies))?;
        self.plot.write(|| phases.svg())
    }
}

/// The longest message: a few of them fit a token buffer pool, and their frames a window.
const MAX_SIZE: usize = 64 << 10;

/// What is measured.
pub(crate) struct Order {
    pub(crate) how: DriverOptions,
    pub(crate) sizes: Vec<usize>,
    pub(crate) rounds: usize,
    pub(crate) cores: Cores,
}

/// Whether what is timed finds its code and data in the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
enum Cache {
    Warm,
    Cold,
}

/// Messages of one size over one transport.
#[derive(Debug)]
struct Messages {
    size: usize,
    /// One for each round.
    rounds: Vec<Sampled>,
}

/// What was measured over one transport.
#[derive(Debug)]
struct Part {
    transport: String,
    /// The payload of a frame.
    mtu: u32,
    mode: String,
    messages: Vec<Messages>,
    calls: Vec<Call>,
}

/// Everything that was measured.
#[derive(Debug)]
pub(crate) struct Phases {
    parts: Vec<Part>,
    copies: Copies,
    caches: Caches,
    cores: Cores,
    rounds: usize,
}

/// Measure over each of the transports in turn, in rounds.
fn measure(topologies: &[Topology], order: Order, quiet: bool, watch: &Watch) -> Result<Phases, Error> {
    let places = Topology::all_sides(topologies)?;
    let caches = Caches::of(order.cores.near);
    let Order { sizes, rounds, cores, .. } = &order;
    let steps = places.len() * (sizes.len() + 1) + copies::SIZES.len();
    let progress = Progress::new(rounds * steps, quiet);
    let mut phases = Phases {
        parts: places.iter().map(|(transport, sides)| Part::new(transport, sides.mtu, sizes)).collect(),
        copies: Copies::default(),
        caches,
        cores: *cores,
        rounds: *rounds,
    };
    for round in 0..*rounds {
        for (part, (_, sides)) in phases.parts.iter_mut().zip(&places) {
            turn(part, sides, (round, &order, caches), &progress, watch)?;
        }
        std::thread::scope(|scope| {
            let copying = scope.spawn(|| pin(cores.near).and_then(|_| phases.copies.round(caches, &progress, watch)));
            copying.join().unwrap_or_else(|_| Err(Error::PeerGone("its thread panicked".to_owned())))
        })?;
    }
    Ok(phases)
}

/// The names of the nodes.
const NAMES: [&str; 2] = ["alpha", "beta"];

fn turn(
    part: &mut Part,
    sides: &Sides,
    (round, order, caches): (usize, &Order, Caches),
    progress: &Progress,
    watch: &Watch,
) -> Result<(), Error> {
    let (shared, evictor) = (&Shared::new(watch), &Evictor::new(caches));
    let open = |side, core| pin(core).and_then(|_| open(sides, side, (round, order), shared, watch));
    let near = |_: &ScopedJoinHandle<'_, _>| {
        // This is the thread of the command if the sides have no hosts of their own.
        let measured = open(Side::Near, order.cores.near).and_then(|mut vertex| {
            let measured = sample(part, Near { vertex: &mut vertex, shared, evictor }, progress);
            // While our side is still open.
            shared.end();
            measured
        });
        shared.end();
        measured
    };
    let far = || {
        let served = open(Side::Far, order.cores.far).and_then(|mut vertex| serve(&mut vertex, shared, evictor));
        shared.end();
        served
    };
    sides.both(near, far).map(drop)
}

/// A side's vertex, connected to the other.
fn open(
    sides: &Sides,
    side: Side,
    (round, order): (usize, &Order),
    shared: &Shared,
    watch: &Watch,
) -> Result<Vertex, Error> {
    let (transport, _) = deploy::open(&sides.on(side, round), order.how, watch)?;
    let node = drivers::node(Idle::spinning(), NAMES[side as usize], order.how, transport)?;
    let mut vertex = Vertex::open(node, side, NAMES)?;
    shared.meet(&mut vertex)?;
    Ok(vertex)
}

/// One round of this part.
fn sample(part: &mut Part, mut near: Near<'_>, progress: &Progress) -> Result<(), Error> {
    if let Some(how) = near.vertex.dp.describe(&near.vertex.point) {
        part.mode = how.mode;
    }
    for messages in &mut part.messages {
        progress.say(&format!("{} B over {}", messages.size, part.transport));
        messages.rounds.push(near.sample(messages.size)?);
        progress.done();
    }
    progress.say(&format!("calls over {}", part.transport));
    calls::round(&mut part.calls, near.vertex, Nid(Side::Near as u32))?;
    progress.done();
    Ok(())
}

impl Part {
    fn new(transport: &str, mtu: u32, sizes: &[usize]) -> Part {
        let messages = sizes.iter().map(|size| Messages { size: *size, rounds: vec![] }).collect();
        Part { transport: transport.to_owned(), mtu, mode: String::new(), messages, calls: vec![] }
    }
}

impl Messages {
    /// The samples of all rounds.
    fn all(&self, of: impl Fn(&Sampled) -> &[u64]) -> Vec<u64> {
        self.rounds.iter().flat_map(|round| of(round).iter().copied()).collect()
    }

    /// The transfer phase over the rounds.
    fn transfer(&self) -> Option<Spread> {
        Spread::of(self.rounds.iter().filter_map(transfer))
    }
}

/// What is left of half a round trip without the work of both sides. All medians are of the same round.
fn transfer(round: &Sampled) -> Option<f64> {
    let of = |samples: &[u64]| median(&samples.iter().map(|ns| *ns as f64).collect::<Vec<_>>());
    let warm = Cache::Warm as usize;
    let work = of(&round.send[warm])? + of(&round.read[warm])? + of(&round.touch[warm])?;
    Some(of(&round.round_trips)? / 2.0 - work)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn sampled(send: u64, read: u64, touch: u64, round_trip: u64) -> Sampled {
        let both = |ns: u64| [vec![ns; 3], vec![4 * ns; 3]];
        let (send, read, touch) = (both(send), both(read), both(touch));
        Sampled { send, read, touch, round_trips: vec![round_trip; 5], late: 0 }
    }

    #[test]
    fn the_transfer_is_what_is_left_of_half_a_round_trip() {
        assert_eq!(transfer(&sampled(1000, 500, 100, 6000)), Some(1400.0));
        assert_eq!(
            transfer(&sampled(3000, 500, 100, 6000)),
            Some(-600.0),
            "the receiver began before the call returned"
        );
        let rounds =
            vec![sampled(1000, 500, 100, 6000), sampled(2000, 1000, 200, 12_000), sampled(1000, 500, 100, 6200)];
        let messages = Messages { size: 1, rounds };
        let spread = messages.transfer().unwrap();
        assert_eq!((spread.least, spread.median, spread.most), (1400.0, 1500.0, 2800.0));
    }
}
