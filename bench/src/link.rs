//! Opens drivers on an interface.

use std::time::{Duration, Instant};

use am_afxdp::{Interface, Xdp, XdpOpenError, XdpOptions};
use am_api::{Idle, Node};

use crate::ablation::Row;
use crate::ablation::bare::Bare;
use crate::ablation::queues::Queues;
use crate::ablation::tcp::{Tcp, WriteBatching};
use crate::driver::Driver;
use crate::driver::am::{Am, node_that};
use crate::driver::raw::RawChannel;
use crate::driver::sleeping::Sleeping;
use crate::driver::udp::Udp;
use crate::error::Error;
use crate::measure::Channel;
use crate::plan::{DriverOptions, Side, SideInfo};
use crate::session::{Link, LocatedLink};
use crate::side_info;
use crate::watch::Watch;

/// One side of a wire between two interfaces.
#[derive(Clone, Debug)]
pub(crate) struct InterfaceLink {
    side: Side,
    interface: Interface,
    name: String,
    core: Option<usize>,
}

impl InterfaceLink {
    /// The side on this interface of the calling thread's host, for a node called `name`.
    ///
    /// # Errors
    /// The interface does not exist, or cannot be used.
    pub(crate) fn new(side: Side, name: &str, interface: &str, core: Option<usize>) -> Result<InterfaceLink, Error> {
        let interface = Interface::find(interface)?;
        Ok(InterfaceLink { side, interface, name: name.to_owned(), core })
    }

    /// Open a node on the interface that measures nothing. It sleeps while it is idle.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub(crate) fn node(&self, how: DriverOptions, watch: &Watch) -> Result<Node, Error> {
        node_that(Idle::default(), &self.name, how, Box::new(self.transport(how, watch)?))
    }

    fn transport(&self, how: DriverOptions, watch: &Watch) -> Result<Xdp, Error> {
        let options = XdpOptions { attach: how.xdp.attach(), ..XdpOptions::new(&self.interface.name) };
        once_free(watch, || Ok(am_afxdp::open(&options)?))
    }

    /// The names of the node and of its interface.
    pub(crate) fn names(&self) -> (&str, &str) {
        (&self.name, &self.interface.name)
    }

    fn udp(&self, peer: &SideInfo, watch: &Watch) -> Result<Udp, Error> {
        let Interface { name, driver, mtu, .. } = &self.interface;
        let open = || Udp::open(self.side, name, peer.carries(*mtu), (&self.here()?, peer), format!("{driver} kernel"));
        once_free(watch, open)
    }

    fn row(&self, row: Row, peer: &SideInfo, how: DriverOptions, watch: &Watch) -> Result<Box<dyn Channel>, Error> {
        if row.is_kernel() {
            return self.kernel(row, peer, how, watch);
        }
        if row.is_of_queues() {
            let transport = self.transport(how, watch)?;
            let xdp = transport.mode().attach.name();
            return Ok(Box::new(Queues::new(transport, peer.link(), row).by_xdp(xdp).carrying(peer)));
        }
        let raw = once_free(watch, || RawChannel::open(&self.interface, how.xdp, peer))?;
        Ok(Box::new(Bare::new(raw, row)))
    }

    fn kernel(&self, row: Row, peer: &SideInfo, how: DriverOptions, watch: &Watch) -> Result<Box<dyn Channel>, Error> {
        if row == Row::UdpSleeping {
            return Ok(Box::new(Sleeping::new(self.udp(peer, watch)?)));
        }
        let (mtu, mode) = (peer.carries(self.interface.mtu), format!("{} kernel", self.interface.driver));
        let write_batching = if row == Row::TcpNagle { WriteBatching::Kernel } else { WriteBatching::like_ours(how) };
        let tcp =
            Tcp::open((self.side, write_batching), &self.interface.name, mtu, (&self.here()?, peer), mode, watch)?;
        Ok(if row == Row::TcpSleeping { Box::new(Sleeping::new(tcp)) } else { Box::new(tcp) })
    }

    fn am(&self, peer: &SideInfo, how: DriverOptions, watch: &Watch) -> Result<Am, Error> {
        let transport = self.transport(how, watch)?;
        let xdp = transport.mode().attach.name();
        Ok(Am::over(transport, self.side, &self.name, peer, how, watch)?.by_xdp(xdp))
    }
}

/// The socket of the driver before may keep its queue for a moment after it was closed, on a busy machine for longer. A
/// NIC whose link has just come up cannot use its IPv6 address yet.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);

/// Open; try again while the queue is in use, or an address is not usable yet.
pub(crate) fn once_free<T>(watch: &Watch, mut open: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let begin = Instant::now();
    loop {
        match open() {
            Err(Error::Open(XdpOpenError::Busy { .. }) | Error::NoIp(_)) if begin.elapsed() < RELEASE_TIMEOUT => {
                watch.check()?
            }
            result => return result,
        }
    }
}

impl LocatedLink for InterfaceLink {
    fn here(&self) -> Result<SideInfo, Error> {
        side_info::here(&self.name, &Interface::find(&self.interface.name)?, self.core)
    }
}

impl Link for InterfaceLink {
    fn open(
        &mut self,
        driver: Driver,
        peer: &SideInfo,
        how: DriverOptions,
        watch: &Watch,
    ) -> Result<Box<dyn Channel>, Error> {
        // The interface of a server may get another MTU or address.
        self.interface = Interface::find(&self.interface.name)?;
        Ok(match driver {
            Driver::Am => Box::new(self.am(peer, how, watch)?),
            Driver::Raw => Box::new(once_free(watch, || RawChannel::open(&self.interface, how.xdp, peer))?),
            Driver::Udp => Box::new(self.udp(peer, watch)?),
            Driver::Row(row) => self.row(row, peer, how, watch)?,
            Driver::Cacheline => return Err(Error::Usage("--driver cacheline is for --hosts shm".to_owned())),
        })
    }
}
