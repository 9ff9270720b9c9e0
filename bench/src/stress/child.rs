//! One of the two processes.

use std::io::stdin;
use std::process;
use std::thread::sleep;
use std::time::Duration;

use super::{Plan, Role, receiver, sender};
use crate::cores::pin;
use crate::deploy::pipe::Lines;
use crate::error::Error;
use crate::watch::Watch;

/// Every loop checks the watch. If one does not, the process ends after this time.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Carry out the plan of the parent process, until that closes the pipe.
///
/// # Errors
/// The transport cannot be opened, or the other process cannot be reached.
pub(crate) fn run(watch: &Watch) -> Result<(), Error> {
    let closed = watch.clone();
    let plans: Lines<Plan> = Lines::read(stdin(), move || end(&closed));
    let Some(plan) = plans.next(Duration::MAX, watch)? else { return Ok(()) };
    pin(plan.core)?;
    match plan.role {
        Role::Sender { region } => sender::run(&plan, region, watch),
        Role::Receiver { stalls } => receiver::run(&plan, stalls, watch),
    }
}

fn end(watch: &Watch) {
    watch.peer_is_gone();
    sleep(EXIT_TIMEOUT);
    process::exit(1);
}
