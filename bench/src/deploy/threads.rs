//! Both hosts are threads of this process, each pinned to its core.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::cores::{Cores, pin};
use crate::error::Error;
use crate::named::NamedLink;
use crate::plan::{Plan, Side, SideInfo};
use crate::progress::Progress;
use crate::serve::follow;
use crate::session::{Link, LocatedLink, Order, PlanChannel, Session, run};
use crate::watch::Watch;

/// Measure between the near side on this thread, and the far side on another.
///
/// # Errors
/// The reason for an early end of the session.
pub(crate) fn measure(
    order: &Order,
    (here, mut link): (SideInfo, impl Link),
    (there, mut far): (SideInfo, impl Link + Send),
    progress: &Progress,
    watch: &Watch,
) -> Result<Session, Error> {
    let (plans, asked) = channel();
    // The far side learns that the near side is gone, and not that it is gone itself.
    let far_watch = watch.of_another_peer();
    let core = there.core;
    thread::scope(|scope| {
        let far = scope.spawn(|| serve(asked, core, &mut far, &far_watch).inspect_err(|_| watch.peer_is_gone()));
        let mut control = PlanHandover { plans, there };
        let near = pin(here.core).and_then(|_| run(order, &here, &mut control, &mut link, progress, watch));
        // The far side no longer waits for anything.
        drop((control, link));
        far_watch.peer_is_gone();
        let far = far.join().unwrap_or_else(|_| Err(lost("its thread panicked")));
        match (near, far) {
            // The far side's error is the cause.
            (Err(Error::Lost(_) | Error::PeerGone(_)), Err(why)) => Err(why),
            (Ok(Session { end: Err(Error::Lost(_) | Error::PeerGone(_)), all, cores, mtu }), Err(why)) => {
                Ok(Session { all, cores, mtu, end: Err(why) })
            }
            (near, _) => near,
        }
    })
}

/// The error of a side that is gone.
pub(super) fn lost(why: &str) -> Error {
    Error::PeerGone(why.to_owned())
}

fn serve(plans: Receiver<Plan>, core: Option<usize>, link: &mut dyn Link, watch: &Watch) -> Result<(), Error> {
    pin(core)?;
    while let Ok(plan) = plans.recv() {
        follow(&plan, link, watch)?;
    }
    Ok(())
}

/// Hands plans to the other thread, which cannot refuse.
struct PlanHandover {
    plans: Sender<Plan>,
    there: SideInfo,
}

impl PlanChannel for PlanHandover {
    fn ask(&mut self, plan: &Plan, _: &Watch) -> Result<SideInfo, Error> {
        self.plans.send(plan.clone()).map_err(|_| lost("its thread has ended"))?;
        Ok(self.there.clone())
    }
}

/// Measure between two threads, on the network of this name.
///
/// # Errors
/// There is no such network, or the session ended early.
pub(crate) fn simulated(
    order: &Order,
    on: &str,
    cores: Cores,
    progress: &Progress,
    watch: &Watch,
) -> Result<Session, Error> {
    let near = NamedLink::new(Side::Near, "alpha", on, cores.near)?;
    let far = NamedLink::new(Side::Far, "beta", on, cores.far)?;
    measure(order, (near.here()?, near), (far.here()?, far), progress, watch)
}
