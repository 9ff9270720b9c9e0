//! Both hosts are threads of this process, joined by memory.

use std::sync::mpsc::{Receiver, Sender, channel};

use am_transport::loopback::{LoopbackOptions, Plug, wire};
use am_wire::Address;
use am_wire::frame::ETHERNET_HEADER;

use super::threads::{self, lost};
use crate::ablation::queues::Queues;
use crate::cores::Cores;
use crate::driver::Driver;
use crate::driver::am::{Am, facility};
use crate::driver::memory::Memory;
use crate::error::Error;
use crate::measure::Channel;
use crate::plan::{DriverOptions, Side, SideInfo};
use crate::progress::Progress;
use crate::session::{Link, Order, Session};
use crate::watch::Watch;

/// Measure between two threads.
///
/// # Errors
/// The reason for an early end of the session.
pub(crate) fn measure(order: &Order, cores: Cores, progress: &Progress, watch: &Watch) -> Result<Session, Error> {
    let (ends, given) = channel();
    let near = side(Side::Near, "alpha", cores.near, WireEnds::Sends(ends));
    let far = side(Side::Far, "beta", cores.far, WireEnds::Receives(given));
    threads::measure(order, near, far, progress, watch)
}

fn side(side: Side, name: &str, core: Option<usize>, exchange: WireEnds) -> (SideInfo, LoopbackLink) {
    let (name, mtu) = (name.to_owned(), u32::try_from(LoopbackOptions::default().max_frame - ETHERNET_HEADER).ok());
    let place = SideInfo { name: name.clone(), core, mtu, ..SideInfo::default() };
    (place, LoopbackLink { side, exchange, name })
}

/// The near side makes a wire for each stage, and sends the far side its end.
enum WireEnds {
    Sends(Sender<End>),
    Receives(Receiver<End>),
}

/// An end of a wire, and the address of the other end.
type End = (Plug, Address);

impl WireEnds {
    /// Our end of the next wire.
    fn end(&self) -> Result<End, Error> {
        match self {
            WireEnds::Sends(ends) => {
                let [near, far]: [Plug; 2] = wire(2).try_into().map_err(|_| lost("a wire has two ends"))?;
                let (here, there) = (near.address(), far.address());
                ends.send((far, here)).map_err(|_| lost("its thread has ended"))?;
                Ok((near, there))
            }
            WireEnds::Receives(ends) => ends.recv().map_err(|_| lost("the near side has ended")),
        }
    }
}

/// One side of wires in memory.
struct LoopbackLink {
    side: Side,
    exchange: WireEnds,
    name: String,
}

impl Link for LoopbackLink {
    fn open(
        &mut self,
        driver: Driver,
        peer: &SideInfo,
        how: DriverOptions,
        watch: &Watch,
    ) -> Result<Box<dyn Channel>, Error> {
        let (plug, other) = self.exchange.end()?;
        Ok(match (driver, self.side) {
            (Driver::Am, side) => {
                Box::new(Am::over(plug.open().map_err(facility)?, side, &self.name, peer, how, watch)?)
            }
            (Driver::Raw, _) => Box::new(Memory::open(plug, other)?),
            (Driver::Row(row), _) if row.is_of_queues() => {
                Box::new(Queues::new(plug.open().map_err(facility)?, other, row))
            }
            (Driver::Udp | Driver::Cacheline | Driver::Row(_), _) => {
                return Err(Error::Usage("--hosts loopback has no kernel sockets: give --driver am,raw".to_owned()));
            }
        })
    }
}
