//! The demonstration: a table with explanations.

use std::time::Duration;

use crate::cli::{Options, Topology};
use crate::error::Error;
use crate::plan::Bench;
use crate::report::{INTRODUCTION, LOOPBACK};
use crate::session::Session;
use crate::watch::Watch;
use crate::{measure, out, print};

const TIME: Duration = Duration::from_millis(100);
const BENCHES: [Bench; 2] = [Bench::Latency, Bench::Bandwidth];

/// Measure over a cable, or in memory if a cable cannot be made.
///
/// # Errors
/// Neither works, or a signal arrived.
pub(crate) fn show(options: &Options, watch: &Watch) -> Result<(), Error> {
    say(options, INTRODUCTION)?;
    let (session, place) = match over(&Topology::Veth(1500), options, watch) {
        Err(error) if error.exit_code() == 3 => {
            say(options, &format!("That is not possible here.\n{error}\n\n{LOOPBACK}"))?;
            (over(&Topology::Loopback, options, watch)?, Topology::Loopback)
        }
        other => (other?, Topology::Veth(1500)),
    };
    print(session, &place, options)
}

fn over(place: &Topology, options: &Options, watch: &Watch) -> Result<Session, Error> {
    measure(&BENCHES, place, options, TIME, watch)
}

fn say(options: &Options, text: &str) -> Result<(), Error> {
    if options.json { Ok(()) } else { out::print(&format!("{text}\n\n")) }
}
