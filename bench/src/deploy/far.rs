//! The process of the far side of `--hosts`. Plans arrive on its standard input, and it ends when that closes.

use std::io::stdout;
use std::time::Duration;

use crate::cores::pin;
use crate::error::Error;
use crate::link::InterfaceLink;
use crate::named::NamedLink;
use crate::plan::{Answer, Plan, Side};
use crate::serve::{answer, follow};
use crate::session::LocatedLink;
use crate::watch::Watch;

use super::pipe::{Lines, write_line};
use super::processes::SocketDirectory;

/// Serve the process that started this one, until it closes the pipe.
///
/// # Errors
/// A driver cannot be opened here, or the near side is lost before it has ended.
pub(crate) fn serve(name: &str, on: &str, core: Option<usize>, watch: &Watch) -> Result<(), Error> {
    let plans: Lines<Plan> = Lines::from_parent(watch);
    let core = pin(core)?;
    let _files = SocketDirectory::of(on);
    let mut link: Box<dyn LocatedLink> = match on.strip_prefix("xdp:") {
        Some(interface) => Box::new(InterfaceLink::new(Side::Far, name, interface, core)?),
        None => Box::new(NamedLink::new(Side::Far, name, on, core)?),
    };
    match follow_all(&plans, &mut *link, watch) {
        // Nobody is left to read an error.
        Err(Error::PeerGone(_)) => Ok(()),
        other => other,
    }
}

fn follow_all(plans: &Lines<Plan>, link: &mut dyn LocatedLink, watch: &Watch) -> Result<(), Error> {
    while let Some(plan) = plans.next(Duration::MAX, watch)? {
        let answer = answer(&plan, link.here());
        write_line(&mut stdout(), &answer)?;
        if let Answer::Accepted(_) = answer {
            match follow(&plan, link, watch) {
                // The near side reports its own reason.
                Err(Error::GivenUp) => {}
                other => other?,
            }
        }
    }
    Ok(())
}
