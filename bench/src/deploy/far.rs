//! The far side of `--hosts`, where it is a process: plans come on standard input, and its end
//! is ours.

use std::io::{stdin, stdout};
use std::process;
use std::thread;
use std::time::Duration;

use crate::cores::pin;
use crate::error::Error;
use crate::link::InterfaceLink;
use crate::named::NamedLink;
use crate::plan::{Answer, Plan};
use crate::serve::{answer, follow};
use crate::session::Placed;
use crate::side::Side;
use crate::watch::Watch;

use super::joined::Files;
use super::pipe::{Lines, write_line};

/// Every loop looks at the watch; should one not, the process ends anyway.
const AT_THE_LATEST: Duration = Duration::from_secs(2);

/// Serve the process that started this one until it closes the pipe.
///
/// # Errors
/// A via cannot be opened here, or a loss of the near side that is not its end.
pub(crate) fn serve(name: &str, on: &str, core: Option<usize>, watch: &Watch) -> Result<(), Error> {
    let closed = watch.clone();
    let plans: Lines<Plan> = Lines::read(stdin(), move || end(&closed));
    let core = pin(core)?;
    let _files = Files::of(on);
    let mut link: Box<dyn Placed> = match on.strip_prefix("xdp:") {
        Some(interface) => Box::new(InterfaceLink::new(Side::Far, name, interface, core)?),
        None => Box::new(NamedLink::new(Side::Far, name, on, core)?),
    };
    match follow_all(&plans, &mut *link, watch) {
        // Who would be told has gone.
        Err(Error::PeerGone(_)) => Ok(()),
        other => other,
    }
}

fn follow_all(plans: &Lines<Plan>, link: &mut dyn Placed, watch: &Watch) -> Result<(), Error> {
    while let Some(plan) = plans.next(Duration::MAX, watch)? {
        let answer = answer(&plan, link.here());
        write_line(&mut stdout(), &answer)?;
        if let Answer::Accepted(_) = answer {
            match follow(&plan, link, watch) {
                // It says why itself.
                Err(Error::GivenUp) => {}
                other => other?,
            }
        }
    }
    Ok(())
}

fn end(watch: &Watch) {
    watch.peer_is_gone();
    thread::sleep(AT_THE_LATEST);
    process::exit(1);
}
