//! **What `am-bench objects` measures**: the calls of a shared object (`layers/objects`), beside the messages that they are made of, in one run.
//!
//! ```text
//!   rounds ─▶ turn.rs: a space is opened, measured, ended       each member: a process on a host of its own
//!               │ orders, answers: protocol.rs                   member.rs ─▶ subject.rs, the object
//!               ├───────────────────────────────────────────────▶
//!               └ bare messages: am-bench-ordered
//!   ─▶ measured.rs ─▶ report.rs
//! ```
//!
//! Read first: `work.rs` (what is measured), then `protocol.rs`, then `member.rs`.
#![forbid(unsafe_code)]

// What `derive(Wire)` writes names `::am_rpc::codec`, which am-objects has, too.
extern crate am_objects as am_rpc;

mod measured;
mod member;
mod protocol;
mod report;
mod subject;
mod turn;
mod work;

use clap::Args;

use am_bench_ordered::Setup;
use am_measure::members::{Conditions, MOST_PROCESSES, Missing, Place};
use am_measure::options::{Origin, only, usage};
use am_measure::{Common, Error, Here, HostsArg, Progress, Topology, Watch};
use measured::{Figures, Measured};
use turn::take;
use work::{Row, Turn};

pub use member::be as be_member;

/// The options of `objects`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("hosts", |hosts| hosts.value_parser(only(HOSTS)).help(
    "Run the members in processes of this machine, joined by this transport; veth: each on a host of its own, on one bridge [default: \
     veth]")))]
#[command(mut_arg("framing", |framing| framing.default_value("bare").help(
    "Where our messages carry their header [default: bare]").hide_default_value(true)))]
#[command(mut_arg("rounds", |rounds| rounds.default_value("5").help("How many turns each row takes")))]
pub struct ObjectsArgs {
    #[command(flatten)]
    here: Here,
    /// Processes that share the object, 2 to 16
    #[arg(long, default_value = "3", value_parser = members, value_name = "N", help_heading = "What")]
    members: usize,
    #[command(flatten)]
    common: Common,
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
        match self.here.topology(&self.common.open)? {
            topology @ (Topology::Veth(_, None) | Topology::Processes(..)) => Ok(topology),
            _ => Err(usage("members are processes: give --hosts veth, udp, tcp or shm")),
        }
    }

    /// Measure all rows in turn, and print them.
    ///
    /// # Errors
    /// It was interrupted, or the place cannot be made. A turn that fails is reported, and the others are measured.
    pub fn run(&self, watch: &Watch) -> Result<(), Error> {
        let (topology, members) = (self.topology()?, self.members);
        let place = Place::new(&topology, members, self.here.cores.both()?)?;
        let amount = self.common.amount.amount();
        let progress = &Progress::new(Row::ALL.len() * amount.rounds, self.common.print.json);
        let how = self.common.open.how(topology.framing());
        let setup = Setup { place: &place, how, amount, sizes: &[], progress, watch };
        let mut figures = Figures {
            all: vec![],
            missing: vec![],
            members,
            conditions: Conditions::of(&topology, &place, amount.rounds),
        };
        for round in 0..amount.rounds {
            figures.round(round, &setup)?;
        }
        self.common.print.publish(figures.report(), &Origin::new(topology.transport(), place.mtu))
    }
}

impl Figures {
    /// Measure everything once more. Each round begins with another turn.
    fn round(&mut self, round: usize, setup: &Setup<'_>) -> Result<(), Error> {
        for nth in 0..Turn::ALL.len() {
            let turn = Turn::ALL[(round + nth) % Turn::ALL.len()];
            let (given, end) = take(setup, turn, self.members);
            self.all.extend(given.into_iter().map(|(row, sample)| Measured { round, row, sample }));
            Missing::note(&mut self.missing, round, format!("the rest of {}", turn.name()), end)?;
        }
        Ok(())
    }
}
