//! **What `am-bench ordered` measures**: totally ordered multicast in groups of several sizes, beside the bare request and reply that it is
//! made of, and beside Corosync and openraft, in one run, with the rows of the Orca paper (Bal et al., 1997, section 5.1).
//!
//! ```text
//!   rounds ─▶ turn.rs: a group is opened, measured, ended        each member: a process on a host of its own (am_measure::members)
//!               │ orders, answers: protocol.rs                    member/ ─┬─ am.rs    a request and its reply
//!               └────────────────────────────────────────────────▶         ├─ ours.rs  our group, Agreed or Safe
//!                                                                          ├─ raft/    openraft, as a log or a store
//!                                                                          └─ corosync.rs, bench/peers/corosync.c
//!   ─▶ measured.rs ─▶ report.rs, orca.rs, plot.rs
//! ```
//!
//! `am-bench-objects` measures with the same rows of bare groups, and with openraft as a store. `simulated/` has our groups alone, of up to
//! 64 members, in virtual time.
//!
//! Read first: `work.rs` (what is measured), then `protocol.rs`, then `member/mod.rs`.
#![forbid(unsafe_code)]

mod corosync;
mod measured;
mod member;
mod orca;
mod plot;
mod protocol;
mod report;
mod simulated;
mod turn;
mod wanted;
mod work;

use clap::Args;

use am_measure::members::{Conditions, MOST_PROCESSES, Missing, Place, usable_cores};
use am_measure::options::{self, DEFAULT_MTU, Origin, PlotOption, check_once, only, usage};
use am_measure::{Common, Error, FramingArg, Here, HostsArg, Progress, Topology, Watch, out};
use measured::{FailOver, Figures, Measured};
use simulated::Groups;
use work::LONG;

// What am-bench-objects measures with.
pub use member::be as be_member;
pub use turn::{Given, Sample, Setup};
pub use work::{Load, Senders, Stack, Work};

/// The options of `ordered`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("hosts", |hosts| hosts.value_parser(only(HOSTS)).help(
    "Run the members in processes of this machine, joined by this transport; veth: each on a host of its own, on one bridge; sim: our \
     groups alone, on simulated hosts in virtual time [default: veth]")))]
#[command(mut_arg("framing", |framing| framing.default_value("bare").default_value_if("hosts", "sim", "split").help(
    "Where our messages carry their header [default: bare; with --hosts sim split]").hide_default_value(true)))]
// Virtual time needs one round, and a short one: the others would have the same figures.
#[command(mut_arg("rounds", |rounds| rounds.default_value("5").default_value_if("hosts", "sim", "1").help(
    "How many turns each row takes; 1 with --hosts sim")))]
#[command(mut_arg("time", |time| time.default_value_if("hosts", "sim", "0.01").help(
    "Length of one measurement [default: 0.25; with --hosts sim 0.01, in virtual time]").hide_default_value(true)))]
#[command(mut_arg("plot", |plot| plot.help("Plot the time of a null message, and null messages a second, over members, as SVG")))]
pub struct OrderedArgs {
    #[command(flatten)]
    here: Here,
    /// Members of a group, 2 to 16 [default: 2,4,8,16]; with --hosts sim up to 64 [default: 2,4,8,16,32,64]
    #[arg(long, value_delimiter = ',', default_value = "2,4,8,16", default_value_if("hosts", "sim", "2,4,8,16,32,64"), value_parser = members,
          value_name = "N,...", help_heading = "What", hide_default_value = true)]
    members: Vec<usize>,
    /// Bytes of a message, up to 1M; null messages are always measured, with --hosts sim alone
    #[arg(long, value_delimiter = ',', default_value = "1K,1M", default_value_if("hosts", "sim", None), value_parser = size, value_name = "BYTES,...",
          help_heading = "What")]
    size: Vec<usize>,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    plot: PlotOption,
}

/// Where more than two members can meet.
const HOSTS: &[HostsArg] = &[HostsArg::Veth, HostsArg::Udp, HostsArg::Tcp, HostsArg::Shm, HostsArg::Sim];

fn members(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| (2..=64).contains(count)).ok_or_else(|| "from 2 to 64".to_owned())
}

fn size(text: &str) -> Result<usize, String> {
    options::message(text).and_then(|size| match size {
        1..=LONG => Ok(size),
        _ => Err(format!("from 1 to {LONG}; null messages are measured without it")),
    })
}

impl OrderedArgs {
    /// Where the members run.
    ///
    /// # Errors
    /// The options contradict each other.
    pub fn topology(&self) -> Result<Topology, Error> {
        self.plot.check(&self.common.print)?;
        check_once("--size", &self.size)?;
        check_once("--members", &self.members)?;
        let topology = self.here.topology(&self.common.open)?;
        let is_simulated = matches!(topology, Topology::Sim(_));
        if is_simulated && (self.plot.plot.is_some() || !self.size.is_empty()) {
            return Err(usage("--hosts sim has null messages alone, and no plot: give no --size and no --plot"));
        }
        if !is_simulated && self.members.iter().any(|members| *members > MOST_PROCESSES) {
            return Err(usage(format!("from 2 to {MOST_PROCESSES} members are processes; --hosts sim has up to 64")));
        }
        Ok(topology)
    }

    /// Measure all stacks in turn, print them, and plot them if asked.
    ///
    /// # Errors
    /// Nothing could be measured, or it was interrupted. A stack that is not there, or a group that fails, is said and left out.
    pub fn run(&self, watch: &Watch) -> Result<(), Error> {
        let topology = self.topology()?;
        let (mut members, mut sizes) = (self.members.clone(), self.size.clone());
        members.sort_unstable();
        sizes.sort_unstable();
        if matches!(topology, Topology::Sim(_)) {
            return self.simulate(&members, watch);
        }
        let most = members.last().copied().unwrap_or(2);
        let place = Place::new(&topology, most, self.here.cores.both()?)?;
        let amount = self.common.amount.amount();
        let mut missing = vec![];
        let stacks = stacks(&place, &mut missing);
        let of_all = members.iter().flat_map(|members| stacks.iter().map(|stack| (*stack, *members)));
        // Members without a core each sleep in all rows.
        let differs = |(stack, members): &(Stack, usize)| *stack != Stack::Asleep || *members <= usable_cores();
        let groups: Vec<(Stack, usize)> = of_all.filter(differs).collect();
        let rows: Vec<Work> =
            groups.iter().flat_map(|(stack, members)| Work::all_of(*stack, *members, &sizes)).collect();
        let fail_overs: Vec<usize> = members.iter().copied().filter(|members| *members > 2).collect();
        let steps = (rows.len() + fail_overs.len()) * amount.rounds;
        let progress = &Progress::new(steps, self.common.print.json);
        let how = self.common.open.how(topology.framing());
        let setup = Setup { place: &place, how, amount, sizes: &sizes, progress, watch };
        let mut figures = Figures {
            rows,
            all: vec![],
            fail_overs: vec![],
            missing,
            members,
            conditions: Conditions::of(&topology, &place, amount.rounds),
        };
        for round in 0..amount.rounds {
            figures.round(round, &setup, &groups, &fail_overs)?;
        }
        self.common.print.publish(figures.report(), &Origin::new(topology.transport(), place.mtu))?;
        self.plot.write(|| figures.svg())
    }

    /// Our groups on simulated hosts.
    fn simulate(&self, members: &[usize], watch: &Watch) -> Result<(), Error> {
        let (how, mtu) = (self.common.open.how(FramingArg::Split), self.here.mtu.unwrap_or(DEFAULT_MTU));
        let amount = self.common.amount.amount();
        let progress = Progress::new(Groups::steps(members), self.common.print.json);
        let groups = Groups::measure(members, how, mtu, amount, (&progress, watch))?;
        drop(progress);
        self.common.print.publish(groups.report(), &Origin::new("sim", Some(mtu)))
    }
}

/// Those that can run there. One that cannot is reported.
fn stacks(place: &Place, missing: &mut Vec<Missing>) -> Vec<Stack> {
    let found = corosync::find(place).inspect_err(|why| {
        out::status(&format!("no Corosync: {why}"));
        missing.push(Missing::peer(Stack::Corosync.name(), why));
    });
    let is_there = |stack: &Stack| match stack {
        Stack::Corosync => found.is_ok(),
        stack => place.has_hosts() || !stack.is_variant(),
    };
    Stack::ALL.into_iter().filter(is_there).collect()
}

impl Figures {
    /// Measure everything once more. Each round begins with another group.
    fn round(
        &mut self,
        round: usize,
        setup: &Setup<'_>,
        groups: &[(Stack, usize)],
        fail_overs: &[usize],
    ) -> Result<(), Error> {
        for nth in 0..groups.len() {
            let (stack, members) = groups[(round + nth) % groups.len()];
            let (given, end) = setup.take(stack, members);
            self.all.extend(given.into_iter().map(|(work, sample)| Measured { round, work, sample }));
            let what = format!("the rest of {} in a group of {members}", stack.name());
            Missing::note(&mut self.missing, round, what, end)?;
        }
        for members in fail_overs {
            let gap = setup.fail_over(*members);
            let gap = gap.map(|gap| self.fail_overs.push(FailOver { members: *members, ms: gap.as_secs_f64() * 1e3 }));
            let what = format!("the end of a sequencer of {members}");
            Missing::note(&mut self.missing, round, what, gap)?;
        }
        Ok(())
    }
}
