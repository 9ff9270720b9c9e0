//! The step between the agent's fork and the program: this process asks the kernel to end it with its agent, then becomes the
//! program.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, parent_id};
use std::process::{Command, ExitCode};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

use crate::report;

/// The argument that makes this program this step. The agent's process id follows, then the program.
pub(crate) const START: &str = "--start";

/// The exit code of a program that is there and cannot be started.
const CANNOT_START: u8 = 126;
/// The exit code of a program that is not there.
const NO_PROGRAM: u8 = 127;

pub(crate) fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let agent = arguments.next().and_then(|agent| agent.into_string().ok()?.parse().ok());
    let (Some(agent), Some(program)) = (agent, arguments.next()) else { return ExitCode::from(CANNOT_START) };
    // It fails only for a number that is no signal. The agent may have ended before.
    _ = set_pdeathsig(Signal::SIGKILL);
    if parent_id() != agent {
        return ExitCode::from(CANNOT_START);
    }
    let error = Command::new(&program).args(arguments).exec();
    report::say(format_args!("`{}` cannot be started: {error}", program.to_string_lossy()));
    ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { NO_PROGRAM } else { CANNOT_START })
}
