//! Both hosts are threads of this process, joined by a simulated network.

use super::threads;
use crate::cores::Cores;
use crate::error::Error;
use crate::named::NamedLink;
use crate::progress::Progress;
use crate::session::{LocatedLink, Order, Session};
use crate::side::Side;
use crate::watch::Watch;

/// Measure between two threads, on the network of this name.
///
/// # Errors
/// There is no such network, or the session ended early.
pub(crate) fn measure(
    order: &Order,
    on: &str,
    cores: Cores,
    progress: &Progress,
    watch: &Watch,
) -> Result<Session, Error> {
    let near = NamedLink::new(Side::Near, "alpha", on, cores.near)?;
    let far = NamedLink::new(Side::Far, "beta", on, cores.far)?;
    threads::measure(order, (near.here()?, near), (far.here()?, far), progress, watch)
}
