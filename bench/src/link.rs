//! Opens vias on an interface.

use afxdp::{Interface, Options};

use crate::error::Error;
use crate::measure::Port;
use crate::place;
use crate::plan::{FramingArg, Place, Via};
use crate::session::Link;
use crate::via::am::Am;
use crate::via::raw::RawPort;
use crate::via::udp::Udp;
use crate::watch::Watch;

/// Which of the two sides this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The side that asks.
    Near,
    /// The side that answers.
    Far,
}

/// One side of a wire between two interfaces.
#[derive(Debug)]
pub(crate) struct InterfaceLink {
    side: Side,
    interface: Interface,
    here: Place,
}

impl InterfaceLink {
    /// The side on this interface of the calling thread's host, for a node called `name`.
    ///
    /// # Errors
    /// The interface is not there, or cannot be used.
    pub(crate) fn new(side: Side, name: &str, interface: &str, core: Option<usize>) -> Result<InterfaceLink, Error> {
        let interface = Interface::find(interface)?;
        let here = place::here(name, &interface, core)?;
        Ok(InterfaceLink { side, interface, here })
    }

    /// Where this side is.
    pub(crate) fn here(&self) -> &Place {
        &self.here
    }

    fn udp(&self, peer: &Place) -> Result<Udp, Error> {
        let Interface { name, mtu, driver, .. } = &self.interface;
        Udp::open(name, *mtu as usize, &self.here, peer, format!("{driver} kernel"))
    }

    fn am(&self, peer: &Place, framing: FramingArg, watch: &Watch) -> Result<Am, Error> {
        let transport = Box::new(afxdp::open(&Options::new(&self.interface.name))?);
        match self.side {
            Side::Near => Am::near(&self.here, peer, framing, transport, watch),
            Side::Far => Am::far(&self.here, framing, transport),
        }
    }
}

impl Link for InterfaceLink {
    fn open(&mut self, via: Via, peer: &Place, framing: FramingArg, watch: &Watch) -> Result<Box<dyn Port>, Error> {
        Ok(match via {
            Via::Am => Box::new(self.am(peer, framing, watch)?),
            Via::Raw => Box::new(RawPort::open(&self.interface.name, &self.here, peer)?),
            Via::Udp => Box::new(self.udp(peer)?),
        })
    }
}
