//! **What `am-bench objects` measures**: the calls of a shared object (`layers/objects`), beside the messages that they are made of,
//! openraft and Redis, in one run, with the rows of the Orca paper (Bal et al., 1997, tables 1 and 4).
//!
//! ```text
//!   rounds ─▶ turn.rs: a space is opened, measured, ended       each member: a process on a host of its own
//!               │ orders, answers: protocol.rs                   member.rs ─▶ subject.rs, the object
//!               ├───────────────────────────────────────────────▶
//!               ├ bare messages, openraft: am-bench-ordered
//!               ├ bare calls: caller.rs
//!               └ a server on each host: redis/                  the last host: redis/client.rs
//!   ─▶ measured.rs ─▶ report.rs, orca.rs, plot.rs
//! ```
//!
//! Read first: `work.rs` (what is measured), then `protocol.rs`, then `member.rs`.
#![forbid(unsafe_code)]

mod caller;
mod measured;
mod member;
mod orca;
mod plot;
mod protocol;
mod redis;
mod repeat;
mod report;
mod speedups;
mod subject;
mod turn;
mod work;

/// Water and the solver of linear equations.
#[allow(dead_code, reason = "the examples use the rest")]
#[path = "../../../layers/objects/examples/programs/mod.rs"]
mod programs;

use clap::Args;

use am_bench_ordered::Setup;
use am_measure::members::{Conditions, MOST_PROCESSES, Missing, Place};
use am_measure::options::{Origin, PlotOption, only, usage};
use am_measure::{Common, Error, Here, HostsArg, Progress, Topology, Watch, out};
use measured::{Figures, Measured};
use turn::take;
use work::{Row, Turn};

pub use member::be as be_member;
pub use speedups::SpeedupsArgs;

/// The options of `objects`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("hosts", |hosts| hosts.value_parser(only(HOSTS)).help(
    "Run the members in processes of this machine, joined by this transport; veth: each on a host of its own, on one bridge [default: \
     veth]")))]
#[command(mut_arg("framing", |framing| framing.default_value("bare").help(
    "Where our messages carry their header [default: bare]").hide_default_value(true)))]
#[command(mut_arg("rounds", |rounds| rounds.default_value("5").help("How many turns each row takes")))]
#[command(mut_arg("plot", |plot| plot.help("Plot the median and the 99th percentile of each row, as SVG")))]
pub struct ObjectsArgs {
    #[command(flatten)]
    here: Here,
    /// Processes that share the object, 2 to 16
    #[arg(long, default_value = "3", value_parser = members, value_name = "N", help_heading = "What")]
    members: usize,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    plot: PlotOption,
}

/// Where more than two members can meet.
const HOSTS: &[HostsArg] = &[HostsArg::Veth, HostsArg::Udp, HostsArg::Tcp, HostsArg::Shm];

fn members(text: &str) -> Result<usize, String> {
    let fits = |count: &usize| (2..=MOST_PROCESSES).contains(count);
    text.parse().ok().filter(fits).ok_or_else(|| format!("from 2 to {MOST_PROCESSES}"))
}

impl ObjectsArgs {
    /// Where the members run.
    ///
    /// # Errors
    /// The options contradict each other.
    pub fn topology(&self) -> Result<Topology, Error> {
        self.plot.check(&self.common.print)?;
        match self.here.topology(&self.common.open)? {
            topology @ (Topology::Veth(_, None) | Topology::Processes(..)) => Ok(topology),
            _ => Err(usage("members are processes: give --hosts veth, udp, tcp or shm")),
        }
    }

    /// Measure all rows in turn, print them, and plot them if asked.
    ///
    /// # Errors
    /// It was interrupted, or the place cannot be made. A peer that is not there, or a turn that fails, is reported, and the
    /// others are measured.
    pub fn run(&self, watch: &Watch) -> Result<(), Error> {
        let (topology, members) = (self.topology()?, self.members);
        let place = Place::new(&topology, members, self.here.cores.both()?)?;
        let amount = self.common.amount.amount();
        let mut missing = vec![];
        let turns = turns(&mut missing);
        let rows: usize = turns.iter().map(|turn| turn.rows().count()).sum();
        let progress = &Progress::new(rows * amount.rounds, self.common.print.json);
        let how = self.common.open.how(topology.framing());
        let setup = Setup { place: &place, how, amount, sizes: &[], progress, watch };
        let mut figures =
            Figures { all: vec![], missing, members, conditions: Conditions::of(&topology, &place, amount.rounds) };
        for round in 0..amount.rounds {
            figures.round(round, &setup, &turns)?;
        }
        self.common.print.publish(figures.report(), &Origin::new(topology.transport(), place.mtu))?;
        self.plot.write(|| figures.svg())
    }
}

/// Those that can be taken. A peer that is not there is reported.
fn turns(missing: &mut Vec<Missing>) -> Vec<Turn> {
    let found = redis::find().inspect_err(|why| {
        out::status(&format!("no Redis: {why}"));
        missing.push(Missing::peer(Row::Redis.via(), why));
    });
    Turn::ALL.into_iter().filter(|turn| *turn != Turn::Redis || found.is_ok()).collect()
}

impl Figures {
    /// Measure everything once more. Each round begins with another turn.
    fn round(&mut self, round: usize, setup: &Setup<'_>, turns: &[Turn]) -> Result<(), Error> {
        for nth in 0..turns.len() {
            let turn = turns[(round + nth) % turns.len()];
            let (given, end) = take(setup, turn, self.members);
            self.all.extend(given.into_iter().map(|(row, sample)| Measured { round, row, sample }));
            Missing::note(&mut self.missing, round, format!("the rest of {}", turn.name()), end)?;
        }
        Ok(())
    }
}
