//! The full receiver.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{By, ENDPOINT, Open, Plan, RECEIVE_FRAMES, open};
use crate::cores::pin;
use crate::driver::am::facility;
use crate::error::Error;
use crate::watch::Watch;

/// Run the node's loop and take no request out, until told to stop. Returns how many requests the XDP program rejected.
pub(super) fn serve(by: By, (on, plan): (&str, Plan), stop: &AtomicBool, watch: &Watch) -> Result<u64, Error> {
    pin(plan.cores.far)?;
    let Open { node, .. } = open("beta", on, (plan, Some(RECEIVE_FRAMES)), by == By::Host, watch)?;
    // Requests stay in this endpoint. The loop polls another.
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
