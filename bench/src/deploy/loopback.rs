//! Both hosts in this process: two threads, and memory between them.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use ::wire::Address;
use ::wire::frame::ETHERNET;
use transport::loopback::{Options, Plug, wire};

use crate::ablation::queues::Queues;
use crate::cores::{Cores, pin};
use crate::error::Error;
use crate::link::Side;
use crate::measure::Port;
use crate::plan::{How, Place, Plan, Via};
use crate::progress::Progress;
use crate::serve::follow;
use crate::session::{Control, Link, Order, Session, run};
use crate::via::am::{Am, facility};
use crate::via::memory::Memory;
use crate::watch::Watch;

/// Measure between two threads.
///
/// # Errors
/// Whatever ended the session early.
pub(crate) fn measure(order: &Order, cores: Cores, progress: &Progress, watch: &Watch) -> Result<Session, Error> {
    let [here, there] = [("alpha", cores.near), ("beta", cores.far)].map(|(name, core)| place(name, core));
    let ((plans, asked), (ends, given)) = (channel(), channel());
    // The far side is told when the near side is gone, and not when it is itself.
    let far_watch = watch.of_another_peer();
    thread::scope(|scope| {
        let far = scope.spawn(|| far(asked, given, &there, &far_watch).inspect_err(|_| watch.peer_is_gone()));
        let near = near(order, plans, ends, (&here, &there), progress, watch);
        far_watch.peer_is_gone();
        let far = far.join().unwrap_or_else(|_| Err(lost("its thread panicked")));
        match (near, far) {
            // What went wrong over there is why it is gone.
            (Err(Error::Lost(_) | Error::PeerGone(_)), Err(why)) => Err(why),
            (Ok(Session { end: Err(Error::Lost(_) | Error::PeerGone(_)), all, cores }), Err(why)) => {
                Ok(Session { all, cores, end: Err(why) })
            }
            (near, _) => near,
        }
    })
}

fn place(name: &str, core: Option<usize>) -> Place {
    let mtu = u32::try_from(Options::default().max_frame - ETHERNET).ok();
    Place { name: name.to_owned(), address: Address::default().0, ipv4: None, ipv6: None, core, mtu }
}

fn lost(why: &str) -> Error {
    Error::PeerGone(why.to_owned())
}

fn near(
    order: &Order,
    plans: Sender<Plan>,
    ends: Sender<End>,
    (here, there): (&Place, &Place),
    progress: &Progress,
    watch: &Watch,
) -> Result<Session, Error> {
    pin(here.core)?;
    let mut link = Memories { side: Side::Near, exchange: Exchange::Gives(ends), name: here.name.clone() };
    let mut control = Hand { plans, there };
    run(order, here, &mut control, &mut link, progress, watch)
}

fn far(plans: Receiver<Plan>, ends: Receiver<End>, here: &Place, watch: &Watch) -> Result<(), Error> {
    pin(here.core)?;
    let mut link = Memories { side: Side::Far, exchange: Exchange::Takes(ends), name: here.name.clone() };
    while let Ok(plan) = plans.recv() {
        follow(&plan, &mut link, watch)?;
    }
    Ok(())
}

/// Hands over the plan, which nobody here can refuse.
struct Hand<'a> {
    plans: Sender<Plan>,
    there: &'a Place,
}

impl Control for Hand<'_> {
    fn ask(&mut self, plan: &Plan, _: &Watch) -> Result<Place, Error> {
        self.plans.send(plan.clone()).map_err(|_| lost("its thread has ended"))?;
        Ok(self.there.clone())
    }
}

/// The near side makes a wire for each stage and gives the far side its end.
enum Exchange {
    Gives(Sender<End>),
    Takes(Receiver<End>),
}

/// An end of a wire, and the address of the other end.
type End = (Plug, Address);

impl Exchange {
    /// Our end of the next wire.
    fn end(&self) -> Result<End, Error> {
        match self {
            Exchange::Gives(ends) => {
                let [near, far]: [Plug; 2] = wire(2).try_into().map_err(|_| lost("a wire has two ends"))?;
                let (here, there) = (near.address(), far.address());
                ends.send((far, here)).map_err(|_| lost("its thread has ended"))?;
                Ok((near, there))
            }
            Exchange::Takes(ends) => ends.recv().map_err(|_| lost("the near side has ended")),
        }
    }
}

/// One side of wires in memory.
struct Memories {
    side: Side,
    exchange: Exchange,
    name: String,
}

impl Link for Memories {
    fn open(&mut self, via: Via, peer: &Place, how: How, watch: &Watch) -> Result<Box<dyn Port>, Error> {
        let (plug, other) = self.exchange.end()?;
        Ok(match (via, self.side) {
            (Via::Am, side) => Box::new(Am::over(plug.open().map_err(facility)?, side, &self.name, peer, how, watch)?),
            (Via::Raw, _) => Box::new(Memory::open(plug, other)?),
            (Via::Row(row), _) if row.is_of_queues() => {
                Box::new(Queues::new(plug.open().map_err(facility)?, other, row))
            }
            (Via::Udp | Via::Cacheline | Via::Row(_), _) => {
                return Err(Error::Usage("--hosts loopback has no kernel in it: --via am,raw".to_owned()));
            }
        })
    }
}
