//! The step between dp-graph's fork and am-run: this process asks the kernel for SIGKILL when dp-graph is killed, then becomes am-run.
//! Its agents end the processes when it is killed. A stopped am-run does not act on any other signal.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, parent_id};
use std::process::{Command, ExitCode};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

use am_input::command_line::NO_JOB;

/// The argument that makes this program this step. dp-graph's process id follows, then am-run.
pub(crate) const START: &str = "--start";

pub(crate) fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let parent: Option<u32> = arguments.next().and_then(|parent| parent.into_string().ok()?.parse().ok());
    let (Some(parent), Some(am_run)) = (parent, arguments.next()) else { return ExitCode::from(NO_JOB) };
    // It fails only for a number that is no signal. dp-graph may have ended before.
    _ = set_pdeathsig(Signal::SIGKILL);
    if parent_id() != parent {
        return ExitCode::from(NO_JOB);
    }
    let why = Command::new(&am_run).args(arguments).exec();
    say(format_args!(
        "`{}` cannot be started: {why}; install am-run, or say with --am-run where it is",
        am_run.display()
    ));
    ExitCode::from(NO_JOB)
}

/// Tell the user, by one write: a signal may end this process at any time. What cannot be written is lost: the exit code says it, too.
pub(crate) fn say(text: impl Display) {
    _ = io::stderr().write_all(format!("dp-graph: {text}\n").as_bytes());
}
