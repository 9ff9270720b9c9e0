//! What the programs have in common: their output and their exit codes.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::Error;

/// Whether a line could not be printed.
static UNPRINTED: AtomicBool = AtomicBool::new(false);

/// Print a line. A reader that went away is no failure; a full disk is.
pub(crate) fn say(line: &impl Display) {
    if let Err(error) = writeln!(stdout(), "{line}")
        && error.kind() != ErrorKind::BrokenPipe
        && !UNPRINTED.swap(true, Relaxed)
    {
        let program = std::env::args().next().unwrap_or_default();
        let name = program.rsplit('/').next().unwrap_or_default();
        _ = writeln!(stderr(), "{name}: standard output: {error}");
    }
}

/// End the program: with 0 if all is good, with 1 if something is wrong or could not be printed, with 2 if it could not
/// run, as `failed` prints.
pub(crate) fn end(good: Result<bool, Error>, failed: impl FnOnce(&Error)) -> ! {
    exit(match good {
        Ok(good) => i32::from(!good || UNPRINTED.load(Relaxed)),
        Err(error) => {
            failed(&error);
            2
        }
    })
}
