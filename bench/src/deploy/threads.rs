//! Both hosts in this process: two threads, each pinned to its core.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::cores::pin;
use crate::error::Error;
use crate::plan::{Place, Plan};
use crate::progress::Progress;
use crate::serve::follow;
use crate::session::{Control, Link, Order, Session, run};
use crate::watch::Watch;

/// Measure between the near side, on this thread, and the far one, on another.
///
/// # Errors
/// Whatever ended the session early.
pub(crate) fn measure(
    order: &Order,
    (here, mut link): (Place, impl Link),
    (there, mut far): (Place, impl Link + Send),
    progress: &Progress,
    watch: &Watch,
) -> Result<Session, Error> {
    let (plans, asked) = channel();
    // The far side is told when the near side is gone, and not when it is itself.
    let far_watch = watch.of_another_peer();
    let core = there.core;
    thread::scope(|scope| {
        let far = scope.spawn(|| serve(asked, core, &mut far, &far_watch).inspect_err(|_| watch.peer_is_gone()));
        let mut control = Hand { plans, there };
        let near = pin(here.core).and_then(|_| run(order, &here, &mut control, &mut link, progress, watch));
        // Whoever waits for something of it waits no longer.
        drop((control, link));
        far_watch.peer_is_gone();
        let far = far.join().unwrap_or_else(|_| Err(lost("its thread panicked")));
        match (near, far) {
            // What went wrong over there is why it is gone.
            (Err(Error::Lost(_) | Error::PeerGone(_)), Err(why)) => Err(why),
            (Ok(Session { end: Err(Error::Lost(_) | Error::PeerGone(_)), all, cores, mtu }), Err(why)) => {
                Ok(Session { all, cores, mtu, end: Err(why) })
            }
            (near, _) => near,
        }
    })
}

/// What the side that is gone did.
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

/// Hands over the plan, which nobody here can refuse.
struct Hand {
    plans: Sender<Plan>,
    there: Place,
}

impl Control for Hand {
    fn ask(&mut self, plan: &Plan, _: &Watch) -> Result<Place, Error> {
        self.plans.send(plan.clone()).map_err(|_| lost("its thread has ended"))?;
        Ok(self.there.clone())
    }
}
