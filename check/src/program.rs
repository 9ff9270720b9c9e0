//! What the programs have in common: their nodes, their output and their exit codes.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use am_api::{Builder, Node, OpenError, transports};
use am_transport::faulty::{Faults, Faulty};

use crate::Error;

/// The counter of the frames that [`open`] makes a node lose.
pub(crate) const LOST: &str = "faulty_dropped";

/// Open the node. It loses this percentage of the frames that it sends, by the seed.
pub(crate) fn open(builder: Builder, on: &str, loss: f64, seed: u64) -> Result<Node, OpenError> {
    if loss == 0.0 {
        return builder.open(on);
    }
    let faults = Faults { seed, drop: loss / 100.0, ..Faults::NONE };
    builder.open_on(Box::new(Faulty::new(transports::open(on)?, faults)))
}

/// A percentage of frames to lose.
pub(crate) fn loss(text: &str) -> Result<f64, String> {
    let per_cent = text.trim_end_matches('%').parse().ok().filter(|per_cent| (0.0..=50.0).contains(per_cent));
    per_cent.ok_or_else(|| "per cent of the frames, from 0 to 50, as in 0.1".to_owned())
}

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
