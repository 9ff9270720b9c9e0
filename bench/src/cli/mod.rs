//! The command line: what can be said, and what of it goes together.

mod compare;
mod files;
mod options;
mod place;
mod simulated;
mod torture;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) use compare::{CompareArgs, Wanted};
pub(crate) use options::{Options, Switch};
pub(crate) use place::{Where, is_interface};
pub(crate) use torture::TortureArgs;

use crate::error::Error;
use crate::loss::Loss;
use crate::plan::Bench;
use crate::via::Via;

const EXAMPLES: &str = "\
EXAMPLES
  On one machine, two network namespaces and a veth pair (root):
    am-bench latency --hosts veth
    am-bench rate --hosts veth --via am,raw --json
    am-bench bandwidth --sweep --plot curve.svg --hosts veth
    am-bench bandwidth --bulk --loss 0.1,1 --hosts veth
    am-bench compare --plot peers.svg
    am-bench ablation
    am-bench bounce
    am-bench torture
  On one machine, two processes and another transport (no root):
    am-bench latency --hosts shm
    am-bench torture --hosts udp
  In one process, no root:
    am-bench latency --hosts loopback
    am-bench latency --hosts sim --on sim:7,loss=0.01,delay=10us
  On two machines:
    beta$  am-bench --serve --on xdp:eth1 --name beta
    alpha$ am-bench bandwidth --peer beta --on xdp:eth1
  The same over another transport, here UDP:
    beta$  am-bench --serve --on udp:10.0.0.2:7000 --name beta
    alpha$ am-bench latency --peer beta --on udp:10.0.0.1:7000,peer=10.0.0.2:7000

WHAT IS CHECKED
  Bytes are counted as they arrived. Of every message the length is compared, and of one in 16 all
  bytes; of every bulk transfer one byte in 16, others each time. torture compares everything.

EXIT CODES
  0    all was measured
  1    a measurement failed, the other side was lost, or messages were not what was sent
  2    the command line makes no sense, or a size fits no frame
  3    a right or a facility is missing; the message says which and how to get it
  130  interrupted by Ctrl-C (in general 128 and the signal's number)";

/// Measure active messages beside bare AF_XDP and kernel UDP: taken in turn,
/// in rounds, in one run, so that they can be compared.
#[derive(Debug, Parser)]
#[command(name = "am-bench", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    /// What to measure.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Everything else.
    #[command(flatten)]
    pub(crate) options: Options,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum Command {
    /// Round trip of a request and its reply of the same size, one at a time
    Latency,
    /// User bytes a second, one way, full frames or bulk transfers
    Bandwidth(BandwidthArgs),
    /// Messages a second, one way, 64 bytes each, one message a frame unless --bundles on
    Rate,
    /// Ours beside what a program may use instead
    /// [default: --hosts veth, --rounds 3, --time 0.1, --size from 8 to 1M]
    Compare(CompareArgs),
    /// What each layer of ours costs, from bare loops to the whole, and what is there
    /// without us: t0, r_inf and n1/2 of each
    /// [default: --hosts veth, --time 0.05]
    Ablation,
    /// Round trip of a request that comes back because its receiver is full: returned by the XDP
    /// program, where there is one, and by the host [default: --hosts veth]
    Bounce,
    /// Everything at once, for long: messages of all sizes, replies, bundles and transfers, over a wire that loses
    /// frames, between processes that are stopped at random; each has to arrive once, as it was sent. As long as
    /// its --messages take: there is no --time
    /// [default: --hosts veth]
    Torture(TortureArgs),
    /// Latency and bandwidth in a few seconds, with words to it; where
    /// something is missing for veth, says what, and runs in memory
    Demo,
    /// Be the far side (the same as --serve)
    Serve,
    /// The far side of --hosts veth: started by the near side only.
    #[command(hide = true)]
    Far,
    /// One of the two processes of torture: started by it only.
    #[command(hide = true)]
    Tortured,
    /// The process of one turn: started by compare only.
    #[command(hide = true)]
    Turn,
}

/// What can be said of a bandwidth alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct BandwidthArgs {
    /// The curve from 1 byte to 64 KiB, with the start-up time t0, the asymptotic
    /// bandwidth r_inf, and n1/2, the size that reaches half of it; larger messages
    /// than a frame go in several [default --time: 0.05]
    #[arg(long)]
    pub(crate) sweep: bool,
    /// Transfers into a registered region of the far side, beside as many frames as hold as much
    #[arg(long, conflicts_with = "sweep")]
    pub(crate) bulk: bool,
    /// With so many per cent of the frames lost in each direction (1 or 1%), each level
    /// beside none: what is kept of the rate; for am only
    #[arg(long, value_delimiter = ',', value_name = "PERCENT,...", conflicts_with = "sweep")]
    pub(crate) loss: Vec<Loss>,
    /// Draw the curve over size, or with --loss over loss, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

impl BandwidthArgs {
    fn bench(&self) -> Bench {
        if self.bulk { Bench::Bulk } else { Bench::Bandwidth }
    }
}

/// What to do, once it is known to make sense.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Measure these things in this place.
    Measure(Vec<Bench>, Where),
    /// Measure this with none and with so many frames lost, and draw what is kept there.
    Loss(Bench, Vec<Loss>, Where, Option<PathBuf>),
    /// Measure the curve of bandwidth over size in this place, and draw it there.
    Sweep(Where, Option<PathBuf>),
    /// Measure ours and others, in turn.
    Compare(Wanted),
    /// Measure the layers in this place.
    Ablation(Where),
    /// Measure what comes back in this place.
    Bounce(Where),
    /// Be the far side on this transport.
    Serve(String),
    /// Be the far side of `--hosts`, on this transport.
    Far(String),
    /// The demonstration.
    Demo,
    /// Everything at once, in this place.
    Torture(TortureArgs, Where),
    /// One of its two processes.
    Tortured,
    /// The process of one turn of compare.
    Turn,
}

impl Cli {
    /// Whether hosts and cable need not be asked for.
    fn has_its_cable(&self) -> bool {
        let by_itself = matches!(
            self.command,
            Some(Command::Compare(_) | Command::Ablation | Command::Bounce | Command::Torture(_))
        );
        by_itself && self.options.hosts.is_none() && self.options.peer.is_none()
    }

    /// What is to be done.
    ///
    /// # Errors
    /// [`Error::Usage`] for what does not go together.
    pub(crate) fn task(&self) -> Result<Task, Error> {
        let options = &self.options;
        match &self.command {
            Some(Command::Far) => return Ok(Task::Far(options.on.clone().unwrap_or_default())),
            Some(Command::Tortured) => return Ok(Task::Tortured),
            Some(Command::Turn) => return Ok(Task::Turn),
            _ => {}
        }
        options.check(self.has_its_cable())?;
        if options.via.contains(&Via::Cacheline) && !matches!(self.command, Some(Command::Latency)) {
            return Err(usage("--via cacheline is a round trip and nothing else: for latency"));
        }
        let measures = matches!(self.command, Some(Command::Latency | Command::Bandwidth(_) | Command::Rate));
        if options.trace.is_some() && (!measures || options.serve) {
            return Err(usage("--trace is for the near side of latency, bandwidth and rate"));
        }
        let bench = match &self.command {
            Some(Command::Serve) => return options.serving(),
            Some(Command::Demo) => return options.demo(),
            Some(Command::Compare(args)) => return options.compare(args),
            Some(Command::Torture(args)) => return options.torture(args),
            Some(Command::Bounce) => return options.bounce(),
            _ if options.serve => return options.serving(),
            Some(Command::Latency) => Bench::Latency,
            Some(Command::Bandwidth(args)) if args.sweep => return options.sweep(args.plot.as_ref()),
            Some(Command::Ablation) => return options.ablation(),
            Some(Command::Bandwidth(args)) if !args.loss.is_empty() => return options.losses(args),
            Some(Command::Bandwidth(args)) if args.plot.is_some() => {
                return Err(usage("--plot draws a curve: over size with --sweep, or over --loss"));
            }
            Some(Command::Bandwidth(args)) => args.bench(),
            Some(Command::Rate) => Bench::Rate,
            Some(Command::Far | Command::Tortured | Command::Turn) | None => {
                return Err(usage(
                    "what shall be measured? latency, bandwidth, rate, compare, ablation, bounce or torture; `--help` has examples",
                ));
            }
        };
        Ok(Task::Measure(vec![bench], options.place()?))
    }
}

fn usage(text: &str) -> Error {
    Error::Usage(text.to_owned())
}

#[cfg(test)]
mod tests;
