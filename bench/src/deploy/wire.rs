//! Two machines that share nothing but a wire.
//!
//! The plan and its answer are an active message and its reply. Then both
//! sides close their nodes, so that each via has the wire alone, and the far
//! side listens again when the plan has been followed, or the near side lost.

use crate::cores::{Cores, pin};
use crate::error::Error;
use crate::link::{InterfaceLink, Side};
use crate::out::note;
use crate::plan::Via;
use crate::progress::Progress;
use crate::serve::follow;
use crate::session::{Order, run};
use crate::watch::Watch;

use super::Session;
use super::message::{Asking, listen};

/// Measure against the node called `peer`.
///
/// # Errors
/// What is missing, or whatever ended the session early.
pub(crate) fn measure(
    order: &Order,
    name: &str,
    peer: &str,
    interface: &str,
    core: Option<usize>,
    progress: &Progress,
    watch: &Watch,
) -> Result<Session, Error> {
    let mut link = InterfaceLink::new(Side::Near, name, interface, pin(core)?)?;
    let mut control = Asking { link: link.clone(), peer };
    let here = link.here()?;
    if order.vias.contains(&Via::Udp) && here.ipv4.is_none() && here.ipv6.is_none() {
        return Err(Error::NoIp);
    }
    let (all, there) = run(order, &here, &mut control, &mut link, progress, watch)?;
    Ok(Session { all, cores: Cores { near: here.core, far: there.core } })
}

/// Be the far side until interrupted. What goes wrong with one who asks is
/// said, and the next one is listened to.
///
/// # Errors
/// The interface cannot be used, or [`Error::Interrupted`].
pub(crate) fn serve(name: &str, interface: &str, core: Option<usize>, watch: &Watch) -> Result<(), Error> {
    let mut link = InterfaceLink::new(Side::Far, name, interface, pin(core)?)?;
    let mut ready = Some(format!("{name} serves on xdp:{interface}; Ctrl-C ends it"));
    loop {
        let ready = || ready.take().into_iter().for_each(|text| note(&text));
        let plan = listen(&link, watch, ready)?;
        note(&format!("{} measures {} rounds", plan.near.name, plan.rounds));
        match follow(&plan, &mut link, watch) {
            Ok(()) => note("done"),
            Err(error @ (Error::Interrupted { .. } | Error::Open(_))) => return Err(error),
            Err(error) => note(&error.to_string()),
        }
    }
}
