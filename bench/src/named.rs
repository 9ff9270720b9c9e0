//! Opens drivers on a transport that is named: between two processes of one machine, or two machines.

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use am_api::transports::OpenError;
use am_transport::{Name, Transport};
use am_wire::Address;
use am_wire::frame::ETHERNET;

use crate::ablation::bare::Bare;
use crate::ablation::gather::Gather;
use crate::ablation::queues::Queues;
use crate::ablation::row::Row;
use crate::ablation::tcp::{HEADERS, Tcp};
use crate::deploy::joined::Joint;
use crate::error::Error;
use crate::limits;
use crate::measure::{Patience, Port, STAY};
use crate::plan::{How, Place};
use crate::session::{Link, Placed};
use crate::side::Side;
use crate::via::Via;
use crate::via::am::{Am, facility};
use crate::via::cacheline::Cacheline;
use crate::via::dpdk;
use crate::via::simulated;
use crate::via::udp::Udp;
use crate::watch::Watch;

/// The interface whose IP addresses the bare sockets use.
const LOOPBACK: &str = "lo";

/// A placeholder in names: the number of the driver that is opened, for transports that need a new name each time.
pub(crate) const STAGE: &str = "%stage";

/// The default payload of a bare socket's frame.
const ETHERNETS: u32 = 1500;

/// Devices that meet their other end when they are opened.
const MEET: [&str; 2] = ["dpdk:net_memif", "dpdk:net_virtio_user"];

/// How long the other side may take to open its end, and how often this side tries.
const THERE: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub(crate) struct NamedLink {
    side: Side,
    node: String,
    /// Its transport, as named on the command line.
    on: Name,
    /// Its link address if it is fixed; else all zero.
    address: [u8; 6],
    /// The number of drivers opened so far. Both sides open the same ones.
    opened: usize,
    core: Option<usize>,
    /// Whether the name is of several transports.
    is_several: bool,
}

/// Open the transport of this name. With some devices one side is ready before the other, which has to try again.
///
/// # Errors
/// Why it cannot be opened.
pub(crate) fn open(name: &Name, watch: &Watch) -> Result<Box<dyn Transport>, Error> {
    let (text, begin) = (name.to_string(), Instant::now());
    let meets = MEET.iter().any(|device| text.starts_with(device));
    loop {
        match am_api::transports::open(&text) {
            Err(OpenError::Kind { .. }) if meets && begin.elapsed() < THERE => {
                watch.check()?;
                sleep(AGAIN);
            }
            Err(error) if error.is_about_the_name() => return Err(Error::Usage(error.to_string())),
            result => return result.map_err(facility),
        }
    }
}

/// Replace port 0 by a free port. Each driver opens it again, and the other side has to find all of them at one
/// address.
fn with_port(name: &str) -> Result<String, Error> {
    let (scheme, rest) = name.split_once(':').unwrap_or((name, ""));
    let (place, settings) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
    let free = |place: SocketAddr| match scheme {
        "udp" => UdpSocket::bind(place)?.local_addr(),
        _ => TcpListener::bind(place)?.local_addr(),
    };
    match place.parse::<SocketAddr>() {
        Ok(place) if place.port() == 0 && matches!(scheme, "udp" | "tcp") => {
            let place = free(place).map_err(Error::system("looking for a free port"))?;
            Ok(format!("{scheme}:{place}{settings}"))
        }
        _ => Ok(name.to_owned()),
    }
}

impl NamedLink {
    /// The side of a node called `node` on this transport.
    ///
    /// # Errors
    /// The text names no transport, or DPDK cannot open the NIC.
    pub(crate) fn new(side: Side, node: &str, on: &str, core: Option<usize>) -> Result<NamedLink, Error> {
        let on: Vec<String> = am_api::transports::split(on).into_iter().map(with_port).collect::<Result<_, _>>()?;
        let is_several = on.len() > 1;
        let on: Name = on.join("+").parse().map_err(|error| Error::Usage(format!("--on: {error}")))?;
        let address = if on.scheme() == "dpdk" && !is_several { dpdk::address(&on)? } else { [0; 6] };
        Ok(NamedLink { side, node: node.to_owned(), on, address, opened: 0, core, is_several })
    }

    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    pub(crate) fn on(&self) -> String {
        self.on.to_string()
    }

    /// The name of the next driver's transport.
    fn name(&self) -> Result<Name, Error> {
        let name = self.on.to_string().replace(STAGE, &self.opened.to_string());
        name.parse().map_err(|error: am_transport::NameError| Error::Usage(error.to_string()))
    }

    /// The transport of the next driver.
    pub(crate) fn transport(&self, watch: &Watch) -> Result<Box<dyn Transport>, Error> {
        open(&self.name()?, watch)
    }

    /// The transport without our protocol: a bare socket, or bare frames.
    fn raw(&self, peer: &Place, how: How, watch: &Watch) -> Result<Box<dyn Port>, Error> {
        let here = self.here()?;
        let (mtu, mode) = (peer.carries(here.mtu.unwrap_or(ETHERNETS)), "kernel".to_owned());
        Ok(match self.on.scheme() {
            "udp" => Box::new(Udp::open(self.side, LOOPBACK, mtu, (&here, peer), mode)?),
            "tcp" => {
                let side = (self.side, Gather::like_ours(how));
                Box::new(Tcp::open(side, LOOPBACK, mtu, (&here, peer), mode, watch)?)
            }
            "dpdk" => Box::new(dpdk::open(self.side, &self.name()?, (&here, peer), watch)?),
            "sim" => Box::new(simulated::open(&self.name()?, watch)?),
            _ => return Err(self.not_here(Via::Raw)),
        })
    }

    fn row(&self, row: Row, peer: &Place, how: How, watch: &Watch) -> Result<Box<dyn Port>, Error> {
        let scheme = self.on.scheme();
        if row == Row::Tcp && scheme == "tcp" {
            return self.raw(peer, how, watch);
        }
        if row.is_of_queues() {
            // The address of the other side is known once it sends.
            let queues = Queues::new(self.transport(watch)?, Address::BROADCAST, row);
            return Ok(Box::new(queues.carrying(peer)));
        }
        if row.is_kernel() || scheme != "dpdk" {
            return Err(self.not_here(Via::Row(row)));
        }
        Ok(Box::new(Bare::new(dpdk::open(self.side, &self.name()?, (&self.here()?, peer), watch)?, row)))
    }

    fn not_here(&self, via: Via) -> Error {
        Error::Usage(format!("there is no --via {via} over {}: leave it out", self.on.scheme()))
    }
}

impl Placed for NamedLink {
    fn here(&self) -> Result<Place, Error> {
        let bad = |error: am_transport::NameError| Error::Usage(error.to_string());
        let (which, settings) = self.on.settings_with_many("127.0.0.1:7000", |_| true).map_err(bad)?;
        let ip = which.parse().ok().map(|place: SocketAddr| place.ip());
        let frame = settings.filter(|(key, _)| *key == "frame").find_map(|(_, value)| value?.parse::<usize>().ok());
        Ok(Place {
            name: self.node.clone(),
            address: self.address,
            ipv4: ip.and_then(|ip| if let IpAddr::V4(ip) = ip { Some(ip) } else { None }),
            ipv6: ip.and_then(|ip| if let IpAddr::V6(ip) = ip { Some(ip) } else { None }),
            unusable: None,
            core: self.core,
            mtu: match self.on.scheme() {
                _ if self.is_several => None,
                // The transport's default.
                "tcp" if frame.is_none() => Some(Joint::Tcp.mtu()),
                _ => frame.and_then(|frame| u32::try_from(frame.checked_sub(ETHERNET)?).ok()),
            },
        })
    }
}

impl Link for NamedLink {
    fn most(&self, via: Via, how: How, near: &Place, far: &Place) -> Option<usize> {
        match (via, self.on.scheme()) {
            (Via::Raw, "udp") => {
                let near = Place { mtu: near.mtu.or(Some(ETHERNETS)), ..near.clone() };
                limits::most(Via::Udp, how, &near, far)
            }
            (Via::Raw, "tcp") => Some(far.carries(near.mtu?).saturating_sub(HEADERS)),
            _ => limits::most(via, how, near, far),
        }
    }

    fn open(&mut self, via: Via, peer: &Place, how: How, watch: &Watch) -> Result<Box<dyn Port>, Error> {
        self.opened += 1;
        match via {
            // The near side may ask for what this side does not have.
            other if self.is_several && other != Via::Am => Err(self.not_here(other)),
            Via::Am => Ok(Box::new(Am::over(self.transport(watch)?, self.side, &self.node, peer, how, watch)?)),
            Via::Raw => self.raw(peer, how, watch),
            Via::Udp if self.on.scheme() == "udp" => self.raw(peer, how, watch),
            Via::Row(row) => self.row(row, peer, how, watch),
            Via::Cacheline if self.on.scheme() == "shm" => {
                let name =
                    format!("{}-{}", self.on.settings("lab").map_or("am-bench", |(which, _)| which), self.opened);
                Ok(Box::new(Cacheline::open(self.side, &name, watch)?))
            }
            other => Err(self.not_here(other)),
        }
    }

    /// No link goes down here when a driver is opened. A near side that cannot open its own leaves without a message.
    fn patience(&self) -> Patience {
        let usual = Patience::default();
        if self.on.scheme() == "dpdk" { usual } else { Patience { open: THERE, ..usual } }
    }

    fn close(&mut self, port: Box<dyn Port>) {
        // The side that stays to confirm the end closes first. Otherwise a transport that opens at once would connect
        // the next driver to the end that is about to close; and DPDK's memif would unmap memory that the other side
        // still reads, which kills the process.
        sleep(2 * STAY);
        drop(port);
    }
}
