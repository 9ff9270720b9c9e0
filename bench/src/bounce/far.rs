//! The side that is full.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::seam::Seam;
use super::{By, ENDPOINT, Plan, ROOM, open};
use crate::cores::pin;
use crate::error::Error;
use crate::via::am::facility;
use crate::watch::Watch;

/// Turn the node's loop, and take nothing out, until told to stop. Returns how many requests the
/// program returned.
pub(super) fn serve(by: By, plan: Plan, stop: &AtomicBool, watch: &Watch) -> Result<u64, Error> {
    pin(plan.cores.far)?;
    let (node, ..) = open("beta", (plan, Some(ROOM)), watch, |xdp| Seam::new(xdp, by == By::Host))?;
    // Requests wait here for ever; the loop turns by another.
    let _full = node.endpoint::<()>(ENDPOINT).map_err(facility)?;
    let mut turns = node.endpoint::<()>("turns").map_err(facility)?;
    while !stop.load(Relaxed) {
        for _ in 0..1024 {
            turns.poll(&mut ());
        }
        watch.check()?;
    }
    Ok(node.counters().get("xdp_bounced"))
}
