//! The command line: what can be said, and what of it goes together.

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::error::Error;
use crate::names;
use crate::plan::{Amount, Bench, FramingArg, How, Size, Via, XdpArg};
use crate::values;

const EXAMPLES: &str = "\
EXAMPLES
  On one machine, two network namespaces and a veth pair (root):
    am-bench latency --hosts veth
    am-bench rate --hosts veth --via am,raw --json
  In one process, no root:
    am-bench latency --hosts loopback
  On two machines:
    beta$  am-bench --serve --on xdp:eth1 --name beta
    alpha$ am-bench bandwidth --peer beta --on xdp:eth1

EXIT CODES
  0    all was measured
  1    a measurement failed, or the other side was lost
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum Command {
    /// Round trip of a request and its reply of the same size, one at a time
    Latency,
    /// User bytes a second, one way, one message a frame, full frames
    Bandwidth,
    /// Messages a second, one way, one message a frame, 64 bytes each
    Rate,
    /// Latency and bandwidth in a few seconds, with words to it; where
    /// something is missing for veth, says what, and runs in memory
    Demo,
    /// Be the far side (the same as --serve)
    Serve,
    /// The far side of --hosts veth: started by the near side only.
    #[command(hide = true)]
    Far,
}

/// Where the hosts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HostsArg {
    /// Two network namespaces of this machine, joined by a veth pair
    Veth,
    /// Two threads of this process, joined by memory
    Loopback,
}

/// Two cores, or one, or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum CoresArg {
    /// The last two.
    #[default]
    Default,
    /// Not pinned.
    None,
    /// This side alone.
    One(usize),
    /// Near and far.
    Two(usize, usize),
}

/// What can be said besides.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Both hosts on this machine
    #[arg(long, global = true, value_name = "WHERE", help_heading = "Where")]
    pub(crate) hosts: Option<HostsArg>,
    /// Be the far side: answer those who ask, until interrupted
    #[arg(long, global = true, help_heading = "Where")]
    pub(crate) serve: bool,
    /// Measure against the node of this name, which runs `am-bench --serve`
    #[arg(long, global = true, value_name = "NAME", help_heading = "Where")]
    pub(crate) peer: Option<String>,
    /// The interface that leads to the other machine, as in xdp:eth1
    #[arg(long, global = true, value_name = "TRANSPORT", help_heading = "Where")]
    pub(crate) on: Option<String>,
    /// What this node is called [default: the host's name]
    #[arg(long, global = true, value_name = "NAME", help_heading = "Where")]
    pub(crate) name: Option<String>,
    /// MTU of the veth pair
    #[arg(long, global = true, value_name = "BYTES", help_heading = "Where")]
    pub(crate) mtu: Option<u32>,
    /// Cores of the near and the far side, of this side alone, or `none`
    /// [default: the last two, of which --serve takes the last]
    #[arg(long, global = true, value_name = "A,B", value_parser = values::cores, help_heading = "Where")]
    pub(crate) cores: Option<CoresArg>,

    /// What carries the messages, taken in turn [default: all that there are]
    #[arg(long, global = true, value_delimiter = ',', value_name = "VIA,...", help_heading = "What")]
    pub(crate) via: Vec<Via>,
    /// Payload bytes of a message, or `full` for as many as a frame holds
    /// [default: latency 16, bandwidth full, rate 64]
    #[arg(long, global = true, value_delimiter = ',', value_name = "BYTES,...", help_heading = "What")]
    pub(crate) size: Vec<Size>,
    /// Where our messages carry their header [default: bare on the cable that --hosts makes, else auto]
    #[arg(long, global = true, value_enum, value_name = "FRAMING", help_heading = "What")]
    pub(crate) framing: Option<FramingArg>,
    /// Where the XDP program of am and raw runs, on both sides [default: auto]
    #[arg(long, global = true, value_enum, value_name = "WHERE", help_heading = "What")]
    pub(crate) xdp: Option<XdpArg>,

    /// How often each via has its turn; ratios are medians over the rounds
    #[arg(long, global = true, default_value_t = 9, value_name = "N", help_heading = "How much")]
    pub(crate) rounds: usize,
    /// Length of one measurement [default: 0.25, demo 0.1]
    #[arg(long, global = true, value_parser = values::seconds, value_name = "SECONDS", help_heading = "How much")]
    pub(crate) time: Option<Duration>,
    /// What comes before it and is not counted [default: a fifth of --time]
    #[arg(long, global = true, value_parser = values::seconds, value_name = "SECONDS", help_heading = "How much")]
    pub(crate) warm_up: Option<Duration>,
    /// One JSON object a line instead of a table
    #[arg(long, global = true, help_heading = "How much")]
    pub(crate) json: bool,
}

/// What to do, once it is known to make sense.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Measure these things in this place.
    Measure(Vec<Bench>, Where),
    /// Be the far side on this transport.
    Serve(String),
    /// Be the far side of `--hosts veth`.
    Far(String),
    /// The demonstration.
    Demo,
}

/// Where the far side is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// In a namespace of its own, at the end of a cable with this MTU.
    Veth(u32),
    /// In this process.
    Loopback,
    /// On another machine, of this name, on this transport.
    Peer(String, String),
}

impl Where {
    /// The framing where none was named: on a cable of our own there is
    /// nothing to find out, and every round is to be the same.
    pub(crate) fn framing(&self) -> FramingArg {
        match self {
            Where::Veth(_) | Where::Loopback => FramingArg::Bare,
            Where::Peer(..) => FramingArg::Auto,
        }
    }

    /// All the vias there are in this place.
    pub(crate) fn vias(&self) -> &'static [Via] {
        match self {
            Where::Loopback => &[Via::Am, Via::Raw],
            _ => &[Via::Am, Via::Raw, Via::Udp],
        }
    }
}

impl Cli {
    /// What is to be done.
    ///
    /// # Errors
    /// [`Error::Usage`] for what does not go together.
    pub(crate) fn task(&self) -> Result<Task, Error> {
        let options = &self.options;
        if self.command == Some(Command::Far) {
            return Ok(Task::Far(options.on()?));
        }
        options.check()?;
        let bench = match self.command {
            Some(Command::Serve) => return options.serving(),
            Some(Command::Demo) => return options.demo(),
            _ if options.serve => return options.serving(),
            Some(Command::Latency) => Bench::Latency,
            Some(Command::Bandwidth) => Bench::Bandwidth,
            Some(Command::Rate) => Bench::Rate,
            Some(Command::Far) | None => {
                return Err(usage("what shall be measured? latency, bandwidth or rate; `--help` has examples"));
            }
        };
        Ok(Task::Measure(vec![bench], options.place()?))
    }
}

impl Options {
    fn check(&self) -> Result<(), Error> {
        if !ROUNDS.contains(&self.rounds) {
            return Err(Error::Usage(format!("--rounds goes from {} to {}", ROUNDS.start(), ROUNDS.end())));
        }
        for name in [&self.name, &self.peer].into_iter().flatten() {
            names::check(name)?;
        }
        let mut seen = Vec::new();
        for via in &self.via {
            if seen.contains(via) {
                return Err(Error::Usage(format!("--via names {via} twice")));
            }
            seen.push(*via);
        }
        if self.mtu.is_some() && self.hosts != Some(HostsArg::Veth) {
            return Err(usage("--mtu is for --hosts veth; an interface keeps the MTU it has"));
        }
        Ok(())
    }

    fn place(&self) -> Result<Where, Error> {
        match (self.hosts, &self.peer) {
            (Some(_), Some(_)) => Err(usage("--hosts is one machine and --peer two: take one of them")),
            (None, None) => {
                Err(usage("where? --hosts veth, --hosts loopback, or --peer NAME --on xdp:INTERFACE on two machines"))
            }
            (Some(HostsArg::Veth), _) => self.no_on().map(|()| Where::Veth(self.mtu.unwrap_or(1500))),
            (Some(HostsArg::Loopback), _) => self.no_on().and_then(|()| self.loopback()),
            (None, Some(peer)) if *peer == self.node_name() => {
                Err(usage("this node and its peer have the same name: give this one another with --name"))
            }
            (None, Some(peer)) => Ok(Where::Peer(peer.clone(), self.on()?)),
        }
    }

    fn loopback(&self) -> Result<Where, Error> {
        if self.via.contains(&Via::Udp) {
            return Err(usage("--hosts loopback has no kernel in it: --via am,raw"));
        }
        if self.xdp.is_some() {
            return Err(usage("--xdp is for interfaces; --hosts loopback has none"));
        }
        Ok(Where::Loopback)
    }

    fn no_on(&self) -> Result<(), Error> {
        match self.on {
            Some(_) => Err(usage("--on is for two machines; --hosts makes its own cable")),
            None => Ok(()),
        }
    }

    fn serving(&self) -> Result<Task, Error> {
        if self.peer.is_some() || self.hosts.is_some() {
            return Err(usage("--serve is the far side: --peer and --hosts belong to the near side"));
        }
        Ok(Task::Serve(self.on()?))
    }

    fn demo(&self) -> Result<Task, Error> {
        let named = self.peer.is_some() || self.on.is_some() || self.name.is_some();
        if named || self.serve || self.hosts.is_some() {
            return Err(usage("demo makes its own hosts; for others take latency, bandwidth or rate"));
        }
        Ok(Task::Demo)
    }

    /// The interface of `--on`.
    fn on(&self) -> Result<String, Error> {
        let on = self.on.as_deref().ok_or_else(|| usage("which interface? as in --on xdp:eth1"))?;
        match on.strip_prefix("xdp:") {
            Some(interface) if !interface.is_empty() => Ok(interface.to_owned()),
            _ => {
                Err(Error::Usage(format!("`{on}` is no transport that am-bench knows: xdp:INTERFACE, as in xdp:eth1")))
            }
        }
    }

    /// What this node is called.
    pub(crate) fn node_name(&self) -> String {
        self.name.clone().unwrap_or_else(names::of_this_host)
    }

    /// How much to measure, where a measurement takes `time` unless it was said.
    pub(crate) fn amount(&self, time: Duration) -> Amount {
        let time = self.time.unwrap_or(time);
        Amount { rounds: self.rounds, time, warm_up: self.warm_up.unwrap_or(time / 5) }
    }

    /// How vias are opened, in this framing unless another was said.
    pub(crate) fn how(&self, framing: FramingArg) -> How {
        How { framing: self.framing.unwrap_or(framing), xdp: self.xdp.unwrap_or_default() }
    }

    /// The sizes to measure.
    pub(crate) fn sizes(&self, bench: Bench) -> Vec<Size> {
        if self.size.is_empty() { vec![bench.default_size()] } else { self.size.clone() }
    }

    /// The vias to measure, `all` where none were named.
    pub(crate) fn vias(&self, all: &[Via]) -> Vec<Via> {
        if self.via.is_empty() { all.to_vec() } else { self.via.clone() }
    }
}

/// Each keeps all that it measured.
const ROUNDS: RangeInclusive<usize> = 1..=1000;

fn usage(text: &str) -> Error {
    Error::Usage(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(line: &str) -> Result<Task, Error> {
        Cli::try_parse_from(std::iter::once("am-bench").chain(line.split_whitespace())).expect(line).task()
    }

    #[test]
    fn what_makes_sense() {
        let latency = |place| Task::Measure(vec![Bench::Latency], place);
        let on = || "eth1".to_owned();
        for (line, expected) in [
            ("latency --hosts veth", latency(Where::Veth(1500))),
            ("latency --hosts veth --mtu 3000 --cores 1,2", latency(Where::Veth(3000))),
            ("--hosts loopback latency --via am", latency(Where::Loopback)),
            ("latency --peer beta --on xdp:eth1", latency(Where::Peer("beta".to_owned(), on()))),
            ("--serve --on xdp:eth1", Task::Serve(on())),
            ("latency --serve --on xdp:eth1 --name beta", Task::Serve(on())),
            ("serve --on xdp:eth1", Task::Serve(on())),
            ("demo", Task::Demo),
        ] {
            assert_eq!(task(line).expect(line), expected, "{line}");
        }
    }

    #[test]
    fn what_does_not() {
        for line in [
            "",
            "latency",
            "latency --hosts veth --peer beta",
            "latency --hosts veth --on xdp:eth1",
            "latency --hosts veth --rounds 0",
            "latency --hosts veth --rounds 1001",
            "latency --hosts veth --rounds 18446744073709551615",
            "latency --hosts veth --via am,am",
            "latency --hosts loopback --via udp",
            "latency --hosts loopback --mtu 1500",
            "latency --hosts loopback --xdp native",
            "latency --peer beta",
            "latency --peer beta --name beta --on xdp:eth1",
            "latency --peer a-name-of-more-than-thirty-one-bytes --on xdp:eth1",
            "serve --name= --on xdp:eth1",
            "latency --peer beta --on eth1",
            "latency --peer beta --on xdp:",
            "serve",
            "serve --on xdp:eth1 --peer alpha",
            "demo --hosts veth",
            "demo --serve",
            "demo --name alpha",
        ] {
            let error = task(line).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}: {error}");
        }
    }

    #[test]
    fn values_are_checked() {
        for line in [
            "latency --size 0",
            "latency --size huge",
            "latency --cores 1,1",
            "latency --cores 1,2,3",
            "latency --time 0",
            "latency --time -1",
            "latency --time 1e300",
            "latency --time NaN",
            "latency --framing tagged",
            "latency --via tcp",
            "latency --xdp offload",
            "latency --hosts moon",
        ] {
            let line = std::iter::once("am-bench").chain(line.split_whitespace());
            assert!(Cli::try_parse_from(line.clone()).is_err(), "{:?}", line.collect::<Vec<_>>());
        }
    }
}
