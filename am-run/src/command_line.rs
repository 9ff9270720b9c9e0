//! The command line of am-run, and of dp-graph, which is compiled with this file, too: arguments, files that they name, exit codes.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

/// The exit code of a job that could not be started, or that lost a host. A program may end with any lower one itself.
pub(crate) const NO_JOB: u8 = 125;

/// Why a program ends with it.
pub(crate) const NO_OUTPUT: &str = "the output cannot be written";

/// The longest file.
const MAX_FILE: u64 = 1 << 20;

/// The arguments; the exit code where they are wrong (`usage`), or ask for help. `say` writes a line to standard error.
pub(crate) fn parse<T: Parser>(usage: u8, say: fn(fmt::Arguments<'_>)) -> Result<T, ExitCode> {
    T::try_parse().map_err(|answer| match answer.print().and_then(|()| io::stdout().flush()) {
        _ if answer.use_stderr() => ExitCode::from(usage),
        Err(why) => {
            say(format_args!("{NO_OUTPUT}: {why}"));
            ExitCode::from(NO_JOB)
        }
        Ok(()) => ExitCode::SUCCESS,
    })
}

/// A device may have no end. A FIFO may have no writer, and opening it would wait; standard input and `<(command)` are open already.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let is_open = ["/dev/stdin", "/dev/fd", "/proc"].iter().any(|open| path.starts_with(open));
    if !is_open && fs::metadata(path)?.file_type().is_fifo() {
        return Err(io::Error::other("it is a FIFO: write `<(cat FIFO)`, or a file"));
    }
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE { Err(io::Error::other("it has more than 1 MiB")) } else { Ok(text) }
}
