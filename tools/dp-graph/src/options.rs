//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

/// Starts a program on a graph of Directed Point channels, and shows its edges while it runs.
///
/// GRAPH is a file in DOT, or a generated graph: `ring:8`, `mesh:3x3`, `tree:7`. A vertex is the process of that rank; an edge is a
/// channel from an endpoint (a DPID) of one process to an endpoint of another. A program calls `dp_graph()` and names no node.
#[derive(Debug, Parser)]
#[command(name = "dp-graph", version, after_help = AFTER_HELP)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<RunOptions>),
    /// Print a graph as DOT, with the number of each endpoint
    Show {
        /// A file in DOT, or `ring:NUMBER`, `mesh:ROWSxCOLUMNS`, `tree:NUMBER`
        graph: String,
    },
}

/// Start a program with a process for each vertex.
///
/// The processes are started by am-run, which is beside dp-graph or in PATH. Each gets the graph in the variable DP_GRAPH. They say in
/// each interval what their endpoints have done; dp-graph takes these lines out of standard error, and forwards the rest. It shows each
/// edge with messages, megabytes (10^6) and stalls per second; a stall is a write that found no room at the receiver. On a
/// terminal the table is refreshed in place. Otherwise it is written to standard error at the end, with the rates of the whole run.
///
/// The exit code is am-run's, 125 where am-run is missing or the output cannot be written, or 2 where the arguments or the graph are
/// wrong. Ctrl-C ends all processes.
#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// The hosts, as am-run has them: NAME[:SLOTS],.. or a file. Without this option all processes run here
    #[arg(short = 'H', long, value_name = "LIST|FILE")]
    pub(crate) hosts: Option<String>,

    /// The command that runs another on a host; without it am-run's, ssh
    #[arg(long, value_name = "COMMAND")]
    pub(crate) rsh: Option<String>,

    /// The transport that each process opens: `udp`, `shm`, `xdp:eth1`, `amd:SOCKET`, ..; without it AM_TRANSPORT, or `udp`
    #[arg(long, value_name = "NAME")]
    pub(crate) transport: Option<String>,

    /// Begin each line of output with its rank
    #[arg(short = 'p', long)]
    pub(crate) prefix: bool,

    /// Set a variable in each process; without =VALUE to its value here
    #[arg(short = 'x', long = "export", value_name = "NAME[=VALUE]")]
    pub(crate) exports: Vec<String>,

    /// The directory that the processes start in; without it this one
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) directory: Option<OsString>,

    /// Where am-run is, here and on the other hosts; without it beside dp-graph, or in PATH
    #[arg(long, value_name = "PATH")]
    pub(crate) am_run: Option<OsString>,

    /// How many seconds an interval has
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub(crate) every: Duration,

    /// Write a line of JSON for each edge and interval to this file, and no table. Without =FILE to standard output; then
    /// what the program writes there goes to standard error
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,

    /// Write the live graph as DOT to this file in each interval and at the end: its present edges, with rates
    #[arg(long, value_name = "FILE")]
    pub(crate) dot: Option<PathBuf>,

    /// A file in DOT, or `ring:NUMBER`, `mesh:ROWSxCOLUMNS`, `tree:NUMBER`
    pub(crate) graph: String,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds, as in 0.5".to_owned())?;
    if (0.01..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("an interval has from 0.01 to 3600 seconds".to_owned())
    }
}

const AFTER_HELP: &str = "\
Examples:
  dp-graph run ring:4 ./program                           four processes on this host, over UDP
  dp-graph run --transport shm mesh:3x3 ./program         nine, over shared memory
  dp-graph run -H alpha:2,beta:2 pipeline.dot ./program   an own graph of four vertices on two hosts
  dp-graph run --dot live.dot --every 0.5 tree:7 ./program
  dp-graph show pipeline.dot                              what the file means: the number of each endpoint

An own graph:
  digraph { source -> left -> sink; source -> right; right:5 -> sink:1 }

Four processes; ranks in the order in which the vertices are mentioned. The k-th edge out of a vertex leaves at DPID k, from 1, and an
edge arrives at DPID 0, unless a port says otherwise: `right:5 -> sink:1`.";
