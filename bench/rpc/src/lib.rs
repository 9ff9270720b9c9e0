//! **What `am-bench rpc` measures**: our calls beside the bare request and reply that they are made of, and beside tonic and tarpc, in one
//! run, with the rows of the Orca paper (Bal et al., 1997, tables 3 and 4).
//!
//! ```text
//!   rounds ─▶ turn.rs: one stack, opened on both sides          near            far
//!               ├─ am.rs      a bare request and its reply      keep 1 or 64    reply
//!               ├─ ours.rs    our calls                         calls under     run the method
//!               └─ rivals/    tonic, tarpc, over TCP            way: load.rs
//!   ─▶ measured.rs ─▶ report.rs, orca.rs, plot.rs
//! ```
//!
//! Both sides are threads of this process, each on its host (a network namespace, or this machine) and pinned to its core.
//!
//! Read first: `work.rs` (what is measured), then `turn.rs`.
#![forbid(unsafe_code)]

mod am;
mod load;
mod measured;
mod near;
mod orca;
mod order;
mod ours;
mod plot;
mod report;
mod rivals;
mod turn;
mod work;

use clap::Args;

use am_measure::options::{self, Origin, PlotOption, check_once, only, usage};
use am_measure::{Common, Driver, Error, Here, HostsArg, Progress, Topology, Watch};
use measured::{Figures, Measured};
use order::Marshalling;
use turn::Order;
use work::{Stack, Work};

/// The options of `rpc`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("hosts", |hosts| hosts.value_parser(only(HostsArg::APART)).help(
    "Run both sides in threads of this process, over this transport; tonic and tarpc go over TCP on the same cable, or on the loopback \
     interface [default: veth]")))]
#[command(mut_arg("framing", |framing| framing.default_value("bare").help("Where our messages carry their header")))]
#[command(mut_arg("plot", |plot| plot.help("Plot the time of a call, and calls a second, over the size of its argument, as SVG")))]
pub struct RpcArgs {
    #[command(flatten)]
    here: Here,
    /// Bytes of an argument, and as many of the result, up to 1M; the null call is always measured
    #[arg(long, value_delimiter = ',', default_value = "1K,64K,1M", value_parser = size, value_name = "BYTES,...",
          help_heading = "What")]
    size: Vec<usize>,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    plot: PlotOption,
}

fn size(text: &str) -> Result<usize, String> {
    let most = work::LONG;
    options::message(text).and_then(|size| match size {
        1.. if size <= most => Ok(size),
        _ => Err(format!("from 1 to {most}; the null call is measured without it")),
    })
}

impl RpcArgs {
    /// A cable of its own, or what joins two processes.
    pub fn topology(&self) -> Result<Topology, Error> {
        self.plot.check(&self.common.print)?;
        check_once("--size", &self.size)?;
        let topology = self.here.topology(&self.common.open)?;
        match topology {
            Topology::Loopback | Topology::Sim(_) => {
                Err(usage("tonic and tarpc need a kernel's network: give --hosts veth or udp"))
            }
            topology => Ok(topology),
        }
    }

    /// Measure all stacks in turn, print them, and plot them if asked.
    pub fn run(&self, watch: &Watch) -> Result<(), Error> {
        let topology = self.topology()?;
        let sides = &topology.sides(&[Driver::Am])?;
        let (how, amount) = (self.common.open.how(topology.framing()), self.common.amount.amount());
        let mut sizes = self.size.clone();
        sizes.sort_unstable();
        let rows: Vec<Work> = Stack::ALL.iter().flat_map(|stack| Work::all_of(*stack, &sizes)).collect();
        let progress = &Progress::new(rows.len() * amount.rounds, self.common.print.json);
        let order = Order { sides, how, amount, sizes: &sizes, cores: self.here.cores.both()?, progress, watch };
        let (mut all, mut marshalling) = (vec![], Marshalling::of_both());
        for round in 0..amount.rounds {
            Marshalling::round(&mut marshalling)?;
            for nth in 0..Stack::ALL.len() {
                // Each round begins with another stack.
                let stack = Stack::ALL[(round + nth) % Stack::ALL.len()];
                let given = turn::take(stack, round * Stack::ALL.len() + nth, &order)?;
                all.extend(given.into_iter().map(|(work, sample)| Measured { round, work, sample }));
            }
        }
        let measured =
            Figures { rows, all, marshalling, transport: topology.transport().to_owned(), cores: order.cores };
        self.common.print.publish(measured.report(), &Origin::new(topology.transport(), Some(sides.mtu)))?;
        self.plot.write(|| measured.svg())
    }
}
