//! Both hosts are threads of this process, joined by memory.

use std::sync::mpsc::{Receiver, Sender, channel};

use am_transport::loopback::{Options, Plug, wire};
use am_wire::Address;
use am_wire::frame::ETHERNET;

use super::threads::{self, lost};
use crate::ablation::queues::Queues;
use crate::cores::Cores;
use crate::error::Error;
use crate::measure::Port;
use crate::plan::{How, Place};
use crate::progress::Progress;
use crate::session::{Link, Order, Session};
use crate::side::Side;
use crate::via::Via;
use crate::via::am::{Am, facility};
use crate::via::memory::Memory;
use crate::watch::Watch;

/// Measure between two threads.
///
/// # Errors
/// The reason for an early end of the session.
pub(crate) fn measure(order: &Order, cores: Cores, progress: &Progress, watch: &Watch) -> Result<Session, Error> {
    let (ends, given) = channel();
    let near = side(Side::Near, "alpha", cores.near, Exchange::Gives(ends));
    let far = side(Side::Far, "beta", cores.far, Exchange::Takes(given));
    threads::measure(order, near, far, progress, watch)
}

fn side(side: Side, name: &str, core: Option<usize>, exchange: Exchange) -> (Place, Memories) {
    let (name, mtu) = (name.to_owned(), u32::try_from(Options::default().max_frame - ETHERNET).ok());
    let place = Place { name: name.clone(), core, mtu, ..Place::default() };
    (place, Memories { side, exchange, name })
}

/// The near side makes a wire for each stage, and sends the far side its end.
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
