//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser};

/// Runs programs of PVM over active messages.
///
/// The messages between two tasks go as active messages, if both have the library. What is for the daemon goes to the daemon, and a task
/// without the library is reached as before. The program needs no change.
#[derive(Debug, Parser)]
#[command(name = "pvm-am", version, after_help = AFTER_HELP)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Subcommand,
}

const AFTER_HELP: &str = "\
Examples:
  pvm-am check                       does it work here?
  pvm-am run ./yours                 a program, and the tasks that it spawns
  pvm-am run pvm hosts               a whole virtual machine: each task that its daemon starts
  pvm-am run --transport udp ./yours";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    /// Run a program, and the tasks that it spawns, with the library
    Run(RunOptions),
    /// Say what the library finds: PVM's version, and the transports
    Check(CheckOptions),
}

#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// The transports of each task: `shm`, `udp`, `tcp`, `amd:SOCKET`, `xdp:eth1`, .., joined by `+`; without it PVM_AM, or `shm+udp`
    #[arg(long, value_name = "NAMES")]
    pub(crate) transport: Option<String>,

    /// Each task says at its end, on standard error, how many active messages it has sent and received
    #[arg(long)]
    pub(crate) report: bool,

    /// The library; without it the one beside this program, or in ../lib
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,

    /// The program
    pub(crate) program: PathBuf,

    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckOptions {
    /// As for `run`
    #[arg(long, value_name = "NAMES")]
    pub(crate) transport: Option<String>,

    /// As for `run`
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,

    /// The program to ask. It is started, and the library ends it before it begins; one that is linked statically is not started
    #[arg(default_value = "pvm")]
    pub(crate) program: PathBuf,
}
