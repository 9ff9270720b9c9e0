//! The command line: its options, and which of them go together.

mod compare;
mod contention;
mod files;
mod logp;
mod options;
mod phases;
mod stress;
mod table2;
mod topology;
mod wakeup;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) use compare::CompareArgs;
#[cfg(test)]
pub(crate) use contention::PERMUTE_SIZE;
pub(crate) use contention::{Clients, ContentionArgs, ManyHosts, PermuteArgs, ScaleArgs};
#[cfg(test)]
pub(crate) use options::DEFAULT_ROUNDS;
pub(crate) use options::{HostsArg, Options, Switch};
pub(crate) use stress::StressArgs;
pub(crate) use topology::{Topology, is_interface};

use crate::contention::Server;
use crate::deploy::processes::LocalTransport;
use crate::driver::Driver;
use crate::error::Error;
use crate::loss::Loss;
use crate::plan::Bench;
use crate::wire::WireRate;

const EXAMPLES: &str = "\
EXAMPLES
  On one machine, two network namespaces and a veth pair (root):
    am-bench latency --hosts veth
    am-bench rate --hosts veth --driver am,raw --json
    am-bench bandwidth --sweep --plot curve.svg --hosts veth
    am-bench bandwidth --bulk --loss 0.1,1 --hosts veth
    am-bench compare --plot peers.svg
    am-bench ablation
    am-bench bounce
    am-bench logp --plot logp.svg
    am-bench contention --plot contention.svg
    am-bench permute
    am-bench wakeup
    am-bench phases --plot phases.svg
    am-bench table2
    am-bench table2 --wire 1gbit
    am-bench stress
  On one machine, two processes and another transport (no root):
    am-bench latency --hosts shm
    am-bench stress --hosts udp
  In one process, no root:
    am-bench latency --hosts loopback
    am-bench contention --hosts sim
    am-bench permute --hosts sim --nodes 92
    am-bench scale
    am-bench latency --hosts sim --on sim:7,loss=0.01,delay=10us
  On two machines:
    beta$  am-bench --serve --on xdp:eth1 --name beta
    alpha$ am-bench bandwidth --peer beta --on xdp:eth1
  The same over another transport, here UDP:
    beta$  am-bench --serve --on udp:10.0.0.2:7000 --name beta
    alpha$ am-bench latency --peer beta --on udp:10.0.0.1:7000,peer=10.0.0.2:7000

CHECKS
  The receiver counts the bytes that arrive. It compares the length of every message, all bytes of
  one message in 16, and of every bulk transfer one byte in 16, others each time. stress compares
  everything.

EXIT CODES
  0    everything was measured
  1    a measurement failed, the other side was lost, or messages arrived changed
  2    the command line is wrong, or a size fits no frame
  3    a right or a facility is missing; the message says which, and how to get it
  130  interrupted by Ctrl-C (in general 128 plus the signal's number)";

const NO_CURVE: &str = "--plot needs a curve: add --sweep or --loss";

/// Measure active messages, bare AF_XDP and kernel UDP. They take turns, in rounds, in one run, so
/// that their figures can be compared. The near side sends and reports; the far side answers.
#[derive(Debug, Parser)]
#[command(name = "am-bench", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum Command {
    /// Round trip of a request and its reply of the same size, one at a time
    Latency,
    /// User bytes a second, one way, in full frames or bulk transfers
    Bandwidth(BandwidthArgs),
    /// Messages a second, one way, 64 bytes each, one message a frame unless --coalesce on
    Rate,
    /// Compare ours with what a program may use instead: kernel sockets, UCX, libfabric, MPI and others
    /// [default: --hosts veth, --rounds 3, --time 0.1, --size from 8 to 1M]
    Compare(CompareArgs),
    /// The cost of each of our layers, from bare frames to the whole, and of kernel sockets: start-up
    /// time t0, asymptotic bandwidth r_inf, and n1/2, the size that reaches half of it
    /// [default: --hosts veth, --time 0.05]
    Ablation,
    /// Round trip of a request that a full receiver rejects: by its XDP program, if it has one, and by
    /// its host [default: --hosts veth]
    Bounce,
    /// The parameters of the LogP model: overheads Os and Or, latency L, gap g, and the round trip
    /// [default: over veth, udp, tcp and shm in turn, --time 0.1]
    #[command(name = "logp")]
    LogP(PlotArgs),
    /// Many clients and one server on a switch: the server's rate, each client's share, the round trip, and what
    /// a client that floods takes from the others [default: --hosts veth (namespaces on a bridge, root), --rounds 3;
    /// --hosts sim is a simulated switch in virtual time, one round; --size 16,1024]
    Contention(ContentionArgs),
    /// Every host sends to one other and answers one: circular shift, neighbour, bisection. Bandwidth of a host
    /// and of all, and the round trip, beside two hosts alone [default: --hosts veth (namespaces on a bridge,
    /// root), --rounds 3; --hosts sim is a simulated switch in virtual time, one round; --size 1024]
    Permute(PermuteArgs),
    /// A group of nodes under one name, with more and more members: their rate together, on a simulated switch in virtual
    /// time
    Scale(ScaleArgs),
    /// How soon a thread that sleeps runs again: in a node's wait by a message or a waker, beside a thread that is blocked in a
    /// kernel UDP socket, or parked [default: --rounds 5]
    Wakeup,
    /// The send, transfer and receive phase of a Directed Point message, measured apart, by size, with warm and with cold
    /// caches; the bandwidth of memory copies; and the calls' own cost beside a null system call
    /// [default: over veth (where rights allow), shm and udp in turn, --rounds 5, --mtu 1500, --size from 1 to 16K]
    Phases(PlotArgs),
    /// The round trip of one byte and the bandwidth of Directed Point, active messages, bare frames and the kernel's
    /// sockets on one cable, beside table 2 of the Directed Point paper, as ratios [default: --hosts veth]
    Table2(Table2Args),
    /// Stress test: messages of all sizes, replies, coalesced messages and transfers, over a wire that loses frames,
    /// between processes that are stopped at random. Each message has to arrive once and unchanged. It runs until
    /// all --messages have arrived: there is no --time [default: --hosts veth]
    #[command(alias = "torture")]
    Stress(StressArgs),
    /// Latency and bandwidth in a few seconds, with explanations. If a veth pair cannot be made, says why, and
    /// measures in memory
    Demo,
    /// Be the far side (the same as --serve)
    Serve,
    /// The far side of --hosts. Only the near side starts it.
    #[command(hide = true)]
    Far,
    /// One of the two processes of `stress`, which starts it.
    #[command(hide = true)]
    StressChild,
    /// The process of one turn of `compare`, which starts it.
    #[command(hide = true)]
    Turn,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct BandwidthArgs {
    /// Measure the curve from 1 byte to 64 KiB, with its start-up time t0, its asymptotic bandwidth
    /// r_inf, and n1/2, the size that reaches half of it. Messages larger than a frame go in several
    /// frames [default --time: 0.05]
    #[arg(long, group = "curve")]
    pub(crate) sweep: bool,
    /// Measure transfers into a registered region of the far side, compared with frames of as many bytes
    #[arg(long, conflicts_with = "sweep")]
    pub(crate) bulk: bool,
    /// Lose this percentage of the frames in each direction (1 or 1%), and report the share of the rate
    /// that remains, for each percentage; for am only
    #[arg(long, value_delimiter = ',', value_name = "PERCENT,...", group = "curve")]
    pub(crate) loss: Vec<Loss>,
    /// Plot the curve over sizes, or with --loss over losses, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

impl BandwidthArgs {
    fn bench(&self) -> Bench {
        if self.bulk { Bench::Bulk } else { Bench::Bandwidth }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct PlotArgs {
    /// Plot the figures, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct Table2Args {
    /// Limit the rate of the cable in each direction, in bits a second, 10mbit to 10gbit: a switch between the two hosts
    /// sends no faster than a wire of this rate [default: as fast as this machine copies]
    #[arg(long, value_name = "RATE")]
    pub(crate) wire: Option<WireRate>,
}

/// What to do, after all checks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Measure(Bench, Topology),
    /// Measure a bench with these losses, and plot it to this file.
    Loss(Bench, Vec<Loss>, Topology, Option<PathBuf>),
    /// Measure the curve of bandwidth over size, and plot it to this file.
    Sweep(Topology, Option<PathBuf>),
    Compare(CompareArgs, Option<LocalTransport>),
    Ablation(Topology),
    Bounce(Topology),
    Wakeup,
    /// Over each of these in turn, with messages of these sizes, plotted to this file.
    Phases(Vec<Topology>, Vec<usize>, Option<PathBuf>),
    /// On a cable with this MTU, and with this rate.
    Table2(u32, Option<WireRate>),
    /// Over each of these in turn, plotted to this file.
    LogP(Vec<Topology>, Option<PathBuf>),
    Contention(ManyHosts, Vec<Server>),
    /// With the trunk's oversubscription.
    Permute(ManyHosts, Option<u64>),
    /// Groups with these numbers of members.
    Scale(Vec<usize>),
    Serve(String),
    /// Be the far side of `--hosts`, on this transport.
    Far(String),
    Demo,
    Stress(StressArgs, Topology),
    StressChild,
    Turn,
}

impl Cli {
    /// Whether the command makes its own wire if it is not told where to run.
    fn has_cable(&self) -> bool {
        use Command::{Ablation, Bounce, Compare, Contention, LogP, Permute, Phases, Scale, Stress, Table2};
        matches!(
            self.command,
            Some(
                Compare(_)
                    | Ablation
                    | Bounce
                    | Contention(_)
                    | LogP(_)
                    | Permute(_)
                    | Phases(_)
                    | Scale(_)
                    | Stress(_)
                    | Table2(_)
            )
        )
    }

    pub(crate) fn task(&self) -> Result<Task, Error> {
        let options = &self.options;
        match &self.command {
            Some(Command::Far) => return Ok(Task::Far(options.on.clone().unwrap_or_default())),
            Some(Command::StressChild) => return Ok(Task::StressChild),
            Some(Command::Turn) => return Ok(Task::Turn),
            _ => {}
        }
        options.check(self.has_cable() && options.hosts.is_none() && options.peer.is_none())?;
        if options.driver.contains(&Driver::Cacheline) && !matches!(self.command, Some(Command::Latency)) {
            return Err(usage("--driver cacheline has round trips only: it is for latency"));
        }
        let measures = matches!(self.command, Some(Command::Latency | Command::Bandwidth(_) | Command::Rate));
        if options.trace.is_some() && (!measures || options.serve) {
            return Err(usage("--trace is only for the near side of latency, bandwidth and rate"));
        }
        let bench = match &self.command {
            Some(Command::Serve) => return options.serving(),
            Some(Command::Demo) => return options.demo(),
            Some(Command::Compare(args)) => return options.compare(args),
            Some(Command::Stress(args)) => return options.stress(args),
            Some(Command::Bounce) => return options.bounce(),
            Some(Command::Contention(args)) => return options.contention(args),
            Some(Command::Permute(args)) => return options.permute(args),
            Some(Command::Scale(args)) => return options.scale(args),
            Some(Command::Wakeup) => return options.wakeup(),
            Some(Command::Phases(args)) => return options.phases(args.plot.as_ref()),
            Some(Command::Table2(args)) => return options.table2(args),
            Some(Command::LogP(args)) => return options.logp(args.plot.as_ref()),
            _ if options.serve => return options.serving(),
            Some(Command::Latency) => Bench::Latency,
            Some(Command::Bandwidth(args)) if args.sweep => return options.sweep(args.plot.as_ref()),
            Some(Command::Ablation) => return options.ablation(),
            Some(Command::Bandwidth(args)) if !args.loss.is_empty() => return options.losses(args),
            Some(Command::Bandwidth(args)) if args.plot.is_some() => return Err(usage(NO_CURVE)),
            Some(Command::Bandwidth(args)) => args.bench(),
            Some(Command::Rate) => Bench::Rate,
            Some(Command::Far | Command::StressChild | Command::Turn) | None => return Err(usage(NO_COMMAND)),
        };
        Ok(Task::Measure(bench, options.place()?))
    }
}

const NO_COMMAND: &str = "name a command: latency, bandwidth, rate, compare, ablation, bounce, logp, contention, permute, scale, wakeup, phases, table2, stress or demo; --help has examples";

fn usage(text: &str) -> Error {
    Error::Usage(text.to_owned())
}

#[cfg(test)]
mod tests;
