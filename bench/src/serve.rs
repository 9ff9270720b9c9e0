//! The far side: follows one plan after the other.

use crate::error::Error;
use crate::measure::{Patience, far};
use crate::plan::{Plan, VERSION};
use crate::session::Link;
use crate::watch::Watch;

/// Why a plan that was asked for cannot be followed at all.
pub(crate) fn objection(plan: &Plan) -> Option<String> {
    (plan.version != VERSION).then(|| {
        format!("it speaks version {} of am-bench's plans and the far side {VERSION}: run the same build", plan.version)
    })
}

/// Open each via in its turn and answer on it.
///
/// # Errors
/// The near side is lost, or a via cannot be opened.
pub(crate) fn follow(plan: &Plan, link: &mut dyn Link, watch: &Watch) -> Result<(), Error> {
    for (_, via) in plan.stages() {
        let mut port = link.open(via, &plan.near, plan.framing, watch)?;
        far::serve(port.as_mut(), via, Patience::default(), watch)?;
    }
    Ok(())
}
