//! Two machines that share nothing but a wire.
//!
//! The plan and its answer are an active message and its reply. Then both
//! sides close their nodes, so that each via has the wire alone, and the far
//! side listens again when the plan has been followed, or the near side lost.

use std::thread::sleep;
use std::time::Duration;

use crate::cores::pin;
use crate::error::Error;
use crate::out::note;
use crate::plan::{How, Plan};
use crate::progress::Progress;
use crate::report::words::rounds;
use crate::serve::follow;
use crate::session::{Order, Placed, Session, run};
use crate::side::Side;
use crate::watch::Watch;

use super::anchor::Anchor;
use super::message::{Asking, listen};
use super::veth::check_interface;

/// Where the far side is, by which way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way<'a> {
    /// What this node is called.
    pub(crate) name: &'a str,
    /// What the other is called.
    pub(crate) peer: &'a str,
    /// This side's transport.
    pub(crate) on: &'a str,
    /// This side's core.
    pub(crate) core: Option<usize>,
}

/// Measure against the peer. Where the wire has no IP addresses, and nobody
/// asked for kernel UDP by name, it is left out.
///
/// # Errors
/// What is missing, or whatever ended the session early.
pub(crate) fn measure(order: &Order, way: Way<'_>, progress: &Progress, watch: &Watch) -> Result<Session, Error> {
    let mut link = Anchor::new(Side::Near, way.name, way.on, pin(way.core)?)?;
    match attempt(order, way.peer, &mut link, progress, watch) {
        Err(error @ Error::NoIp(_)) if order.without_udp_if_need_be => {
            note(&format!("without udp: {error}"));
            let order =
                Order { vias: order.vias.iter().copied().filter(|via| !via.is_kernel()).collect(), ..order.clone() };
            attempt(&order, way.peer, &mut link, progress, watch)
        }
        other => other,
    }
}

fn attempt(order: &Order, peer: &str, link: &mut Anchor, progress: &Progress, watch: &Watch) -> Result<Session, Error> {
    let here = link.here()?;
    if let Some(interface) = link.interface()? {
        check_interface(&interface, &order.vias)?;
    }
    if order.vias.iter().any(|via| via.is_kernel()) && here.ipv4.is_none() && here.ipv6.is_none() {
        return Err(Error::NoIp(here.why_no_ip(&here)));
    }
    let mut control = Asking { link: link.clone(), peer };
    run(order, &here, &mut control, link, progress, watch)
}

/// The far side looks so often whether it can serve again.
const AGAIN: Duration = Duration::from_millis(500);

/// Be the far side until interrupted. What goes wrong with one near side is
/// said, and the next one is listened to. Once it has served, an interface that
/// is down, gone or changed is waited for.
///
/// # Errors
/// The interface cannot be used to begin with, or [`Error::Interrupted`].
pub(crate) fn serve((name, on, core): (&str, &str, Option<usize>), how: How, watch: &Watch) -> Result<(), Error> {
    let mut link = Anchor::new(Side::Far, name, on, pin(core)?)?;
    let at = link.on();
    let (mut is_new, mut trouble) = (true, None);
    loop {
        watch.check()?;
        let ready = || {
            if std::mem::take(&mut is_new) {
                note(&format!("{name} serves on {at}; Ctrl-C ends it"));
            } else if trouble.take().is_some() {
                note(&format!("{name} serves on {on} again"));
            }
        };
        match listen(&link, how, watch, ready) {
            Ok(plan) => attend(&plan, &mut link, watch)?,
            Err(error @ Error::Interrupted { .. }) => return Err(error),
            Err(error) if is_new => return Err(error),
            Err(error) => {
                let said = trouble.replace(error.to_string());
                if said != trouble {
                    note(&format!("{error}\n  until then {name} waits"));
                }
                sleep(AGAIN);
            }
        }
    }
}

/// Follow one plan, whatever becomes of it.
fn attend(plan: &Plan, link: &mut Anchor, watch: &Watch) -> Result<(), Error> {
    note(&format!("{} measures {}", plan.near.name, rounds(plan.rounds)));
    match follow(plan, link, watch) {
        Ok(()) => note("done"),
        Err(error @ Error::Interrupted { .. }) => return Err(error),
        Err(error) => note(&error.to_string()),
    }
    Ok(())
}
