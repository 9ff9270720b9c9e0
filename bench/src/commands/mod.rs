//! The command line: a command, its options, and what it runs.

mod measured;

use std::io::{ErrorKind, Write, stdout};

use am_bench_objects::{self as objects, ObjectsArgs, SpeedupsArgs};
use am_bench_ordered::{self as ordered, OrderedArgs};
use am_bench_pvm::PvmArgs;
use am_bench_rpc::RpcArgs;
use am_papers::ablation::AblationArgs;
use am_papers::bounce::BounceArgs;
use am_papers::contention::ContentionArgs;
use am_papers::logp::LogPArgs;
use am_papers::permute::PermuteArgs;
use am_papers::phases::PhasesArgs;
use am_papers::scale::ScaleArgs;
use am_papers::table2::Table2Args;
use clap::error::ErrorKind::InvalidSubcommand;
use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::busy::{self, BusyArgs};
use crate::compare::{self, CompareArgs};
use crate::wakeup::WakeupArgs;
use am_measure::deploy::{child, machines};
use am_measure::options::{self, OpenOptions, usage};
use am_measure::{Bench, Cores, CoresArg, End, Error, FramingArg, Side, Watch, out, own_core, own_link};

pub(crate) use measured::{BandwidthArgs, DemoArgs, LatencyArgs, RateArgs};

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
    am-bench busy
    am-bench phases --plot phases.svg
    am-bench table2
    am-bench table2 --wire 1gbit
    am-bench rpc --plot rpc.svg
    am-bench ordered --members 2,4 --plot ordered.svg
    am-bench objects --plot objects.svg
    am-bench pvm --plot pvm.svg
  On one machine, two processes and another transport (no root):
    am-bench latency --hosts shm
  In one process, no root:
    am-bench latency --hosts loopback
    am-bench contention --hosts sim
    am-bench permute --hosts sim --nodes 92
    am-bench scale
    am-bench speedups --plot speedups.svg
    am-bench latency --hosts sim --on sim:7,loss=0.01,delay=10us
  On two machines:
    beta$  am-bench --serve --on xdp:eth1 --name beta
    alpha$ am-bench bandwidth --peer beta --on xdp:eth1
  The same over another transport, here UDP:
    beta$  am-bench --serve --on udp:10.0.0.2:7000 --name beta
    alpha$ am-bench latency --peer beta --on udp:10.0.0.1:7000,peer=10.0.0.2:7000

CHECKS
  The receiver counts the bytes that arrive. It compares the length of every message, all bytes of
  one message in 16, and of every bulk transfer one byte in 16, others each time. `verify` and
  `ledger` compare everything.

EXIT CODES
  0    everything was measured
  1    a measurement failed, the other side was lost, or messages arrived changed
  2    the command line is wrong, or a size fits no frame
  3    a right or a facility is missing; the message says which, and how to get it
  130  interrupted by Ctrl-C (in general 128 plus the signal's number)";

/// Measure active messages, bare AF_XDP and kernel UDP. They take turns, in rounds, in one run, so
/// that their figures can be compared. The near side sends and reports; the far side answers.
#[derive(Debug, Parser)]
#[command(name = "am-bench", version, after_help = EXAMPLES, max_term_width = 100, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Be the far side: answer near sides until interrupted
    #[arg(long)]
    pub(crate) serve: bool,
    #[command(flatten)]
    pub(crate) end: ServeArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Round trip of a request and its reply of the same size, one at a time
    Latency(LatencyArgs),
    /// User bytes a second, one way, in full frames or bulk transfers
    Bandwidth(BandwidthArgs),
    /// Messages a second, one way, 64 bytes each, one message a frame unless --coalesce on
    Rate(RateArgs),
    /// Compare ours with what a program may use instead: kernel sockets, UCX, libfabric, MPI and others
    ///[default: --hosts veth]
    Compare(CompareArgs),
    /// The cost of each of our layers, from bare frames to the whole, and of kernel sockets: start-up
    /// time t0, asymptotic bandwidth r_inf, and n1/2, the size that reaches half of it
    /// [default: --hosts veth]
    Ablation(AblationArgs),
    /// Round trip of a request that a full receiver rejects: by its XDP program, if it has one, and by
    /// its host [default: --hosts veth]
    Bounce(BounceArgs),
    /// The parameters of the LogP model: overheads Os and Or, latency L, gap g, and the round trip
    /// [default: over veth, udp, tcp and shm in turn]
    #[command(name = "logp")]
    LogP(LogPArgs),
    /// Many clients and one server on a switch: the server's rate, each client's share, the round trip, and what
    /// a client that floods takes from the others [default: --hosts veth (namespaces on a bridge, root);
    /// --hosts sim is a simulated switch in virtual time, one round]
    Contention(ContentionArgs),
    /// Every host sends to one other and answers one: circular shift, neighbour, bisection. Bandwidth of a host
    /// and of all, and the round trip, beside two hosts alone [default: --hosts veth (namespaces on a bridge,
    /// root); --hosts sim is a simulated switch in virtual time, one round]
    Permute(PermuteArgs),
    /// A group of nodes under one name, with more and more members: their rate together, on a simulated switch in virtual
    /// time
    Scale(ScaleArgs),
    /// How soon a thread that sleeps runs again: in a node's wait by a message or a waker, beside a thread that is blocked in a
    /// kernel UDP socket, or parked
    Wakeup(WakeupArgs),
    /// What it costs a computing program to answer calls, and how soon they are answered: by polls in its loop, by a thread that
    /// spins, by a helper that sleeps, by a flag [default: over veth (where rights allow) and shm in turn]
    Busy(BusyArgs),
    /// The send, transfer and receive phase of a Directed Point message, measured apart, by size, with warm and with cold
    /// caches; the bandwidth of memory copies; and the calls' own cost beside a null system call
    /// [default: over veth (where rights allow), shm and udp in turn]
    Phases(PhasesArgs),
    /// The round trip of one byte and the bandwidth of Directed Point, active messages, bare frames and the kernel's
    /// sockets on one cable, beside table 2 of the Directed Point paper, as ratios [default: --hosts veth]
    Table2(Table2Args),
    /// Remote procedure calls, one at a time and 64 at once, by size: ours of each kind, beside the bare request and reply that
    /// they are made of, tonic and tarpc, and beside tables 3 and 4 of the Orca paper, as ratios [default: --hosts veth]
    Rpc(RpcArgs),
    /// Totally ordered multicast in groups of several sizes, Agreed and Safe: latency, rate, and the time without delivery when
    /// the sequencer is killed; beside a bare request and its reply, Corosync and openraft, and beside tables 2 and 3 of the
    /// Orca paper [default: --hosts veth (namespaces on a bridge, root)]
    Ordered(OrderedArgs),
    /// Calls of a shared object: local reads, writes Safe and Agreed, `read_latest`, and a guard that wakes; beside messages of a bare
    /// group of the same members, a bare request and its reply, openraft and Redis, and beside tables 1 and 4 of the Orca paper
    /// [default: --hosts veth (namespaces on a bridge, root)]
    Objects(ObjectsArgs),
    /// Speed-ups of Water and a solver of linear equations, which share objects: on 1 to 8 simulated hosts, with compute times of this
    /// machine, and on its cores; beside figures 6 and 7 of the Orca paper
    Speedups(SpeedupsArgs),
    /// Unchanged programs of PVM, by its own routes and by active messages over xdp, udp and shared memory: two tasks by size, the calls of
    /// a group, and a Fourier transform with 1 to 8 slaves; beside the PVMAM paper [default: --hosts veth]
    Pvm(PvmArgs),
    /// Latency and bandwidth in a few seconds, with explanations. If a veth pair cannot be made, says why, and
    /// measures in memory
    Demo(DemoArgs),
    /// Be the far side (the same as --serve)
    Serve(ServeArgs),
    /// The far side of --hosts. Only the near side starts it.
    #[command(hide = true)]
    Far(FarArgs),
    /// The process of one turn of `compare`, which starts it.
    #[command(hide = true)]
    Turn,
    /// The process that calls in `busy`, which starts it.
    #[command(hide = true)]
    Caller,
    /// A member of a group of `ordered`, which starts it.
    #[command(hide = true)]
    Member,
    /// A member of a space of `objects`, which starts it.
    #[command(hide = true)]
    ObjectMember,
}

/// The far side between two machines.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("on", |on| on.help(
    "The transport to the near sides, such as xdp:eth1 or udp:10.0.0.2:7000. An interface is named without queue= and other \
     settings")))]
#[command(mut_arg("framing", |framing| framing.help(
    "Where our messages carry their header until the near side says it [default: auto]")))]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) end: End,
    /// The core of this side, or `none` [default: the last]
    #[arg(long, value_name = "A", value_parser = options::cores, help_heading = "Where")]
    pub(crate) cores: Option<CoresArg>,
    #[command(flatten)]
    pub(crate) open: OpenOptions,
}

impl ServeArgs {
    pub(crate) fn transport(&self) -> Result<String, Error> {
        own_core(self.cores)?;
        self.end.transport(&self.open, &[])
    }

    fn run(&self, watch: &Watch) -> Result<(), Error> {
        let link = own_link(Side::Far, &self.transport()?, &self.end.node_name(), self.cores.unwrap_or_default())?;
        // Each plan brings the options of its drivers.
        machines::serve(link, self.open.how(FramingArg::Auto), watch)
    }
}

/// The far side of `--hosts`, on this transport.
#[derive(Clone, Debug, Args)]
pub(crate) struct FarArgs {
    #[arg(long)]
    on: String,
    #[arg(long)]
    name: String,
    #[arg(long, value_parser = options::cores)]
    cores: CoresArg,
}

impl Cli {
    pub(crate) fn run(&self, watch: &Watch) -> Result<(), Error> {
        match self.command.as_ref() {
            None if self.serve => self.end.run(watch),
            None => Err(usage(format!("name a command: {}; --help has examples", names().join(", ")))),
            Some(Command::Latency(args)) => args.measured.run(Bench::Latency, watch),
            Some(Command::Bandwidth(args)) => args.run(watch),
            Some(Command::Rate(args)) => args.measured.run(Bench::Rate, watch),
            Some(Command::Compare(args)) => args.run(watch),
            Some(Command::Ablation(args)) => args.run(watch),
            Some(Command::Bounce(args)) => args.run(watch),
            Some(Command::LogP(args)) => args.run(watch),
            Some(Command::Contention(args)) => args.run(watch),
            Some(Command::Permute(args)) => args.run(watch),
            Some(Command::Scale(args)) => args.run(watch),
            Some(Command::Wakeup(args)) => args.run(watch),
            Some(Command::Busy(args)) => args.run(watch),
            Some(Command::Phases(args)) => args.run(watch),
            Some(Command::Table2(args)) => args.run(watch),
            Some(Command::Rpc(args)) => args.run(watch),
            Some(Command::Ordered(args)) => args.run(watch),
            Some(Command::Objects(args)) => args.run(watch),
            Some(Command::Speedups(args)) => args.run(watch),
            Some(Command::Pvm(args)) => args.run(watch),
            Some(Command::Demo(args)) => args.run(watch),
            Some(Command::Serve(args)) => args.run(watch),
            Some(Command::Far(far)) => child::serve(&far.name, &far.on, Cores::own(far.cores, Side::Far)?, watch),
            Some(Command::Turn) => compare::take_turn(watch),
            Some(Command::Caller) => busy::call(watch),
            Some(Command::Member) => ordered::be_member(watch),
            Some(Command::ObjectMember) => objects::be_member(watch),
        }
    }
}

/// Parse the command line. If it is wrong, or asks for help, print the answer and return the exit code.
pub(crate) fn read() -> Result<Result<Cli, u8>, Error> {
    let error = match Cli::try_parse() {
        Ok(cli) => return Ok(Ok(cli)),
        Err(error) => error,
    };
    let printed = error.print().and_then(|()| stdout().flush());
    if error.kind() == InvalidSubcommand {
        out::status(&format!("the commands are {}; `am-bench --help` says what they do", names().join(", ")));
    }
    match printed {
        // The reader is gone; or standard error, which fails, is the only place for an error.
        Err(why) if why.kind() != ErrorKind::BrokenPipe && !error.use_stderr() => {
            Err(Error::System { doing: "writing the help", source: why })
        }
        _ => Ok(Err(u8::try_from(error.exit_code()).unwrap_or(2))),
    }
}

/// The commands that a user may give.
fn names() -> Vec<String> {
    let commands = Cli::command();
    commands.get_subcommands().filter(|of| !of.is_hide_set()).map(|of| of.get_name().to_owned()).collect()
}

#[cfg(test)]
mod tests;
