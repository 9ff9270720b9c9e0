//! The command line of the programs that start jobs: arguments and exit codes.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

/// The exit code of a job that could not be started, or that lost a host. A program may end with any lower one itself.
pub const NO_JOB: u8 = 125;

/// Why a program ends with it.
pub const NO_OUTPUT: &str = "the output cannot be written";

/// The arguments. `say` writes a line to standard error.
///
/// # Errors
/// The exit code: `usage` where they are wrong; another one where they ask for help.
pub fn parse<T: Parser>(usage: u8, say: fn(fmt::Arguments<'_>)) -> Result<T, ExitCode> {
    T::try_parse().map_err(|answer| match answer.print().and_then(|()| io::stdout().flush()) {
        _ if answer.use_stderr() => ExitCode::from(usage),
        Err(why) => {
            say(format_args!("{NO_OUTPUT}: {why}"));
            ExitCode::from(NO_JOB)
        }
        Ok(()) => ExitCode::SUCCESS,
    })
}
