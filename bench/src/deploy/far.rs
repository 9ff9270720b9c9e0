//! The far side of `--hosts veth`: plans come on standard input, and its end
//! is ours.

use std::io::{stdin, stdout};
use std::process;
use std::thread;
use std::time::Duration;

use crate::cores::pin;
use crate::error::Error;
use crate::link::{InterfaceLink, Side};
use crate::plan::{Answer, Plan};
use crate::serve::{follow, objection};
use crate::watch::Watch;

use super::pipe::{Lines, write_line};

/// Every loop looks at the watch; should one not, the process ends anyway.
const AT_THE_LATEST: Duration = Duration::from_secs(2);

/// Serve the process that started this one until it closes the pipe.
///
/// # Errors
/// The near side ended in the middle, or a via cannot be opened here.
pub(crate) fn serve(name: &str, interface: &str, core: Option<usize>, watch: &Watch) -> Result<(), Error> {
    let closed = watch.clone();
    let plans: Lines<Plan> = Lines::read(stdin(), move || end(&closed));
    let mut link = InterfaceLink::new(Side::Far, name, interface, pin(core)?)?;
    while let Some(plan) = next(&plans, watch)? {
        match objection(&plan) {
            Some(why) => write_line(&mut stdout(), &Answer::Refused(why))?,
            None => {
                write_line(&mut stdout(), &Answer::Accepted(link.here().clone()))?;
                follow(&plan, &mut link, watch)?;
            }
        }
    }
    Ok(())
}

/// The next plan; the end between two plans is an end in peace.
fn next(plans: &Lines<Plan>, watch: &Watch) -> Result<Option<Plan>, Error> {
    match plans.next(Duration::MAX, watch) {
        Err(Error::PeerGone(_)) => Ok(None),
        other => other,
    }
}

fn end(watch: &Watch) {
    watch.peer_is_gone();
    thread::sleep(AT_THE_LATEST);
    process::exit(1);
}
