//! Both hosts are threads of this process, each pinned to its core, joined by memory or a simulated network.

use std::sync::mpsc::{Sender, channel};
use std::thread;

use am_transport::loopback::{LoopbackOptions, Plug, wire};
use am_wire::Address;
use am_wire::frame::ETHERNET_HEADER;

use crate::cores::pin;
use crate::deploy::link::NamedLink;
use crate::driver::Driver;
use crate::drivers::am::{Am, facility};
use crate::drivers::queues::Queues;
use crate::error::Error;
use crate::plan::{DriverOptions, Plan, Side, SideInfo};
use crate::session::{Link, Opened, PlanChannel, Session, Setup, follow, run};
use crate::watch::Watch;

pub(crate) fn loopback(setup: Setup<'_>) -> Result<Session, Error> {
    // The near side makes a wire for each stage, and sends the far side its end.
    let (ends, given) = channel::<End>();
    let make = move || {
        let [near, far]: [Plug; 2] = wire(2).try_into().map_err(|_| lost("a wire has two ends"))?;
        let (here, there) = (near.address(), far.address());
        ends.send((far, here)).map_err(|_| lost("its thread has ended"))?;
        Ok((near, there))
    };
    let take = move || given.recv().map_err(|_| lost("the near side has ended"));
    let near = LoopbackLink { side: Side::Near, end: make, name: "alpha", core: setup.cores.near };
    let far = LoopbackLink { side: Side::Far, end: take, name: "beta", core: setup.cores.far };
    measure(setup, near, far)
}

/// Measure between two threads, on the simulated network of this name.
pub(crate) fn simulated(setup: Setup<'_>, on: &str) -> Result<Session, Error> {
    let near = NamedLink::new(Side::Near, "alpha", on, setup.cores.near)?;
    let far = NamedLink::new(Side::Far, "beta", on, setup.cores.far)?;
    measure(setup, near, far)
}

/// Measure between the near side on this thread, and the far side on another.
fn measure(setup: Setup<'_>, mut link: impl Link, mut far: impl Link + Send) -> Result<Session, Error> {
    let watch = setup.watch;
    let ((plans, asked), there) = (channel::<Plan>(), far.here()?);
    // The far side learns that the near side is gone, and not that it is gone itself.
    let far_watch = watch.of_another_peer();
    let (core, its_watch) = (there.core, far_watch.clone());
    let mut serve = move || {
        pin(core)?;
        asked.iter().try_for_each(|plan| follow(&plan, &mut far, &its_watch))
    };
    thread::scope(|scope| {
        let far = scope.spawn(|| serve().inspect_err(|_| watch.peer_is_gone()));
        let mut control = PlanHandover { plans, there };
        let near = link.here().and_then(|here| pin(here.core));
        let near = near.and_then(|_| run(setup, &mut control, &mut link));
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

fn lost(why: &str) -> Error {
    Error::PeerGone(why.to_owned())
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

/// An end of a wire, and the address of the other end.
type End = (Plug, Address);

/// One side of wires in memory.
struct LoopbackLink<F> {
    side: Side,
    /// Our end of the next wire.
    end: F,
    name: &'static str,
    core: Option<usize>,
}

impl<F: Fn() -> Result<End, Error>> Link for LoopbackLink<F> {
    fn here(&self) -> Result<SideInfo, Error> {
        let mtu = u32::try_from(LoopbackOptions::default().max_frame - ETHERNET_HEADER).ok();
        Ok(SideInfo { name: self.name.to_owned(), core: self.core, mtu, ..SideInfo::default() })
    }

    fn open(&mut self, driver: Driver, peer: &SideInfo, how: DriverOptions, watch: &Watch) -> Opened {
        let (plug, other) = (self.end)()?;
        Ok(match driver {
            Driver::Am => {
                let transport = Box::new(plug.open().map_err(facility)?);
                Box::new(Am::over((transport, None), self.side, self.name, peer, how, watch)?)
            }
            Driver::Raw | Driver::Buffers | Driver::Interpreted => {
                Box::new(Queues::new(plug.open().map_err(facility)?, other, driver))
            }
            _ => return Err(Error::Usage("--hosts loopback has no kernel sockets: give --driver am,raw".to_owned())),
        })
    }
}
