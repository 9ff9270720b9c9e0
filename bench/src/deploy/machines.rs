//! Measurements between two machines that share only a network segment.
//!
//! The plan is a request, and the answer is its reply. Then both sides close their nodes, so that each driver has the
//! wire to itself. The far side listens again when the plan is finished or the near side has failed.

use std::thread::sleep;
use std::time::Duration;

use crate::cores::pin;
use crate::error::Error;
use crate::out::status;
use crate::plan::{DriverOptions, Plan, Side};
use crate::progress::Progress;
use crate::report::words::rounds;
use crate::serve::follow;
use crate::session::{LocatedLink, Order, Session, run};
use crate::watch::Watch;

use super::any_link::AnyLink;
use super::message::{PlanSender, listen};
use super::veth::check_interface;

/// How this side reaches the far side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    /// This node's name.
    pub(crate) name: &'a str,
    /// The other node's name.
    pub(crate) peer: &'a str,
    /// This side's transport.
    pub(crate) on: &'a str,
    /// This side's core.
    pub(crate) core: Option<usize>,
}

/// Measure against the peer. Without IP addresses on the wire, kernel UDP is left out unless the user named it.
///
/// # Errors
/// What is missing, or the reason for an early end of the session.
pub(crate) fn measure(order: &Order, target: Target<'_>, progress: &Progress, watch: &Watch) -> Result<Session, Error> {
    let mut link = AnyLink::new(Side::Near, target.name, target.on, pin(target.core)?)?;
    match attempt(order, target.peer, &mut link, progress, watch) {
        Err(error @ Error::NoIp(_)) if order.without_udp_if_need_be => {
            status(&format!("without udp: {error}"));
            let order = Order {
                drivers: order.drivers.iter().copied().filter(|driver| !driver.is_kernel()).collect(),
                ..order.clone()
            };
            attempt(&order, target.peer, &mut link, progress, watch)
        }
        other => other,
    }
}

fn attempt(
    order: &Order,
    peer: &str,
    link: &mut AnyLink,
    progress: &Progress,
    watch: &Watch,
) -> Result<Session, Error> {
    let here = link.here()?;
    if let Some(interface) = link.interface()? {
        check_interface(&interface, &order.drivers)?;
    }
    if order.drivers.iter().any(|driver| driver.is_kernel()) && here.ipv4.is_none() && here.ipv6.is_none() {
        // Only the near side's reasons are known yet.
        return Err(Error::NoIp(here.why_no_ip(&here)));
    }
    let mut control = PlanSender { link: link.clone(), peer };
    run(order, &here, &mut control, link, progress, watch)
}

/// How often the far side tries to serve again.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Be the far side until interrupted. An error with one near side is printed, and the next one is served. Once the
/// far side has listened, it waits for an interface that is down, removed or replaced.
///
/// # Errors
/// The interface cannot be used at the start, or [`Error::Interrupted`].
pub(crate) fn serve(
    (name, transport, core): (&str, &str, Option<usize>),
    options: DriverOptions,
    watch: &Watch,
) -> Result<(), Error> {
    let mut link = AnyLink::new(Side::Far, name, transport, pin(core)?)?;
    let opened = link.on();
    let (mut is_first, mut last_error) = (true, None);
    loop {
        watch.check()?;
        let ready = || {
            if std::mem::take(&mut is_first) {
                status(&format!("{name} serves on {opened} until Ctrl-C"));
            } else if last_error.take().is_some() {
                status(&format!("{name} serves on {transport} again"));
            }
        };
        match listen(&link, options, watch, ready) {
            Ok(plan) => attend(&plan, &mut link, watch)?,
            Err(error @ Error::Interrupted { .. }) => return Err(error),
            Err(error) if is_first => return Err(error),
            Err(error) => {
                let previous = last_error.replace(error.to_string());
                if previous != last_error {
                    status(&format!("{error}\n  {name} waits until it can serve again"));
                }
                sleep(RETRY_INTERVAL);
            }
        }
    }
}

/// Carry out one plan, and print how it ended.
fn attend(plan: &Plan, link: &mut AnyLink, watch: &Watch) -> Result<(), Error> {
    status(&format!("{} measures {}", plan.near.name, rounds(plan.rounds)));
    match follow(plan, link, watch) {
        Ok(()) => status("done"),
        Err(error @ Error::Interrupted { .. }) => return Err(error),
        Err(error) => status(&error.to_string()),
    }
    Ok(())
}
