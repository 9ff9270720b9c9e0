//! A side of two machines: an interface, or another transport by its name.

use am_afxdp::Interface;
use am_api::{Idle, Node};

use crate::cli::is_interface;
use crate::driver::Driver;
use crate::driver::am::node_that;
use crate::error::Error;
use crate::link::InterfaceLink;
use crate::measure::{Channel, Timeouts};
use crate::named::NamedLink;
use crate::plan::{DriverOptions, Side, SideInfo};
use crate::session::{Link, LocatedLink};
use crate::watch::Watch;

#[derive(Clone, Debug)]
pub(super) enum AnyLink {
    Interface(InterfaceLink),
    Named(NamedLink),
}

impl AnyLink {
    /// The side of a node called `node` on this transport.
    ///
    /// # Errors
    /// The interface does not exist, or the text names no transport.
    pub(super) fn new(side: Side, node: &str, on: &str, core: Option<usize>) -> Result<AnyLink, Error> {
        match on.strip_prefix("xdp:").filter(|_| is_interface(on)) {
            Some(interface) => InterfaceLink::new(side, node, interface, core).map(AnyLink::Interface),
            None => NamedLink::new(side, node, on, core).map(AnyLink::Named),
        }
    }

    /// Open a node that measures nothing. It sleeps while it is idle.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub(super) fn node(&self, how: DriverOptions, watch: &Watch) -> Result<Node, Error> {
        match self {
            AnyLink::Interface(link) => link.node(how, watch),
            AnyLink::Named(link) => node_that(Idle::default(), link.node(), how, link.transport(watch)?),
        }
    }

    /// The present state of the interface, if it is one.
    ///
    /// # Errors
    /// It is down, or gone.
    pub(super) fn interface(&self) -> Result<Option<Interface>, Error> {
        match self {
            AnyLink::Interface(link) => Ok(Some(Interface::find(link.names().1)?)),
            AnyLink::Named(_) => Ok(None),
        }
    }

    pub(super) fn on(&self) -> String {
        match self {
            AnyLink::Interface(link) => format!("xdp:{}", link.names().1),
            AnyLink::Named(link) => link.on(),
        }
    }
}

impl LocatedLink for AnyLink {
    fn here(&self) -> Result<SideInfo, Error> {
        match self {
            AnyLink::Interface(link) => link.here(),
            AnyLink::Named(link) => link.here(),
        }
    }
}

impl Link for AnyLink {
    fn most(&self, driver: Driver, how: DriverOptions, near: &SideInfo, far: &SideInfo) -> Option<usize> {
        match self {
            AnyLink::Interface(link) => link.most(driver, how, near, far),
            AnyLink::Named(link) => link.most(driver, how, near, far),
        }
    }

    fn open(
        &mut self,
        driver: Driver,
        peer: &SideInfo,
        how: DriverOptions,
        watch: &Watch,
    ) -> Result<Box<dyn Channel>, Error> {
        match self {
            AnyLink::Interface(link) => link.open(driver, peer, how, watch),
            AnyLink::Named(link) => link.open(driver, peer, how, watch),
        }
    }

    fn timeouts(&self) -> Timeouts {
        match self {
            AnyLink::Interface(link) => link.timeouts(),
            AnyLink::Named(link) => link.timeouts(),
        }
    }

    fn close(&mut self, channel: Box<dyn Channel>) {
        match self {
            AnyLink::Interface(link) => link.close(channel),
            AnyLink::Named(link) => link.close(channel),
        }
    }
}
