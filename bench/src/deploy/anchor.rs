//! A side of two machines: an interface, or another transport by its name.

use am_afxdp::Interface;
use am_api::{Idle, Node};

use crate::cli::is_interface;
use crate::error::Error;
use crate::link::InterfaceLink;
use crate::measure::{Patience, Port};
use crate::named::NamedLink;
use crate::plan::{How, Place};
use crate::session::{Link, Placed};
use crate::side::Side;
use crate::via::Via;
use crate::via::am::node_that;
use crate::watch::Watch;

#[derive(Clone, Debug)]
pub(super) enum Anchor {
    Interface(InterfaceLink),
    Named(NamedLink),
}

impl Anchor {
    /// The side of a node called `node` on this transport.
    ///
    /// # Errors
    /// The interface does not exist, or the text names no transport.
    pub(super) fn new(side: Side, node: &str, on: &str, core: Option<usize>) -> Result<Anchor, Error> {
        match on.strip_prefix("xdp:").filter(|_| is_interface(on)) {
            Some(interface) => InterfaceLink::new(side, node, interface, core).map(Anchor::Interface),
            None => NamedLink::new(side, node, on, core).map(Anchor::Named),
        }
    }

    /// Open a node that measures nothing. It sleeps while it is idle.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub(super) fn node(&self, how: How, watch: &Watch) -> Result<Node, Error> {
        match self {
            Anchor::Interface(link) => link.node(how, watch),
            Anchor::Named(link) => node_that(Idle::default(), link.node(), how, link.transport(watch)?),
        }
    }

    /// The present state of the interface, if it is one.
    ///
    /// # Errors
    /// It is down, or gone.
    pub(super) fn interface(&self) -> Result<Option<Interface>, Error> {
        match self {
            Anchor::Interface(link) => Ok(Some(Interface::find(link.names().1)?)),
            Anchor::Named(_) => Ok(None),
        }
    }

    pub(super) fn on(&self) -> String {
        match self {
            Anchor::Interface(link) => format!("xdp:{}", link.names().1),
            Anchor::Named(link) => link.on(),
        }
    }
}

impl Placed for Anchor {
    fn here(&self) -> Result<Place, Error> {
        match self {
            Anchor::Interface(link) => link.here(),
            Anchor::Named(link) => link.here(),
        }
    }
}

impl Link for Anchor {
    fn most(&self, via: Via, how: How, near: &Place, far: &Place) -> Option<usize> {
        match self {
            Anchor::Interface(link) => link.most(via, how, near, far),
            Anchor::Named(link) => link.most(via, how, near, far),
        }
    }

    fn open(&mut self, via: Via, peer: &Place, how: How, watch: &Watch) -> Result<Box<dyn Port>, Error> {
        match self {
            Anchor::Interface(link) => link.open(via, peer, how, watch),
            Anchor::Named(link) => link.open(via, peer, how, watch),
        }
    }

    fn patience(&self) -> Patience {
        match self {
            Anchor::Interface(link) => link.patience(),
            Anchor::Named(link) => link.patience(),
        }
    }

    fn close(&mut self, port: Box<dyn Port>) {
        match self {
            Anchor::Interface(link) => link.close(port),
            Anchor::Named(link) => link.close(port),
        }
    }
}
