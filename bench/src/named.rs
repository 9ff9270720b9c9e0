//! Opens drivers on a transport that is named: between two processes of one machine, or two machines.

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use am_api::transports::OpenError;
use am_transport::{Transport, TransportName};
use am_wire::Address;
use am_wire::frame::ETHERNET_HEADER;

use crate::ablation::Row;
use crate::ablation::bare::Bare;
use crate::ablation::queues::Queues;
use crate::ablation::tcp::{IP_TCP_HEADERS, Tcp, WriteBatching};
use crate::deploy::processes::LocalTransport;
use crate::driver::Driver;
use crate::driver::am::{Am, facility};
use crate::driver::cacheline::Cacheline;
use crate::driver::dpdk;
use crate::driver::simulated;
use crate::driver::udp::Udp;
use crate::error::Error;
use crate::measure::{CONFIRM_TIME, Channel, Timeouts};
use crate::plan::{DriverOptions, Side, SideInfo};
use crate::session::{self, Link, LocatedLink};
use crate::watch::Watch;

/// The interface whose IP addresses the bare sockets use.
const LOOPBACK: &str = "lo";

/// A placeholder in names: the number of the driver that is opened, for transports that need a new name each time.
pub(crate) const STAGE: &str = "%stage";

/// The default payload of a bare socket's frame.
const DEFAULT_MTU: u32 = 1500;

/// Devices that meet their other end when they are opened.
const MEETING_DEVICES: [&str; 2] = ["dpdk:net_memif", "dpdk:net_virtio_user"];

/// How long the other side may take to open its end, and how often this side tries.
const PEER_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub(crate) struct NamedLink {
    side: Side,
    node: String,
    /// Its transport, as named on the command line.
    on: TransportName,
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
pub(crate) fn open(name: &TransportName, watch: &Watch) -> Result<Box<dyn Transport>, Error> {
    let (text, begin) = (name.to_string(), Instant::now());
    let meets = MEETING_DEVICES.iter().any(|device| text.starts_with(device));
    loop {
        match am_api::transports::open(&text) {
            Err(OpenError::Kind { .. }) if meets && begin.elapsed() < PEER_TIMEOUT => {
                watch.check()?;
                sleep(RETRY_INTERVAL);
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
        let on: TransportName = on.join("+").parse().map_err(|error| Error::Usage(format!("--on: {error}")))?;
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
    fn name(&self) -> Result<TransportName, Error> {
        let name = self.on.to_string().replace(STAGE, &self.opened.to_string());
        name.parse().map_err(|error: am_transport::NameError| Error::Usage(error.to_string()))
    }

    /// The transport of the next driver.
    pub(crate) fn transport(&self, watch: &Watch) -> Result<Box<dyn Transport>, Error> {
        open(&self.name()?, watch)
    }

    /// The transport without our protocol: a bare socket, or bare frames.
    fn raw(&self, peer: &SideInfo, how: DriverOptions, watch: &Watch) -> Result<Box<dyn Channel>, Error> {
        let here = self.here()?;
        let (mtu, mode) = (peer.carries(here.mtu.unwrap_or(DEFAULT_MTU)), "kernel".to_owned());
        Ok(match self.on.scheme() {
            "udp" => Box::new(Udp::open(self.side, LOOPBACK, mtu, (&here, peer), mode)?),
            "tcp" => {
                let side = (self.side, WriteBatching::like_ours(how));
                Box::new(Tcp::open(side, LOOPBACK, mtu, (&here, peer), mode, watch)?)
            }
            "dpdk" => Box::new(dpdk::open(self.side, &self.name()?, (&here, peer), watch)?),
            "sim" => Box::new(simulated::open(&self.name()?, watch)?),
            _ => return Err(self.not_here(Driver::Raw)),
        })
    }

    fn row(&self, row: Row, peer: &SideInfo, how: DriverOptions, watch: &Watch) -> Result<Box<dyn Channel>, Error> {
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
            return Err(self.not_here(Driver::Row(row)));
        }
        Ok(Box::new(Bare::new(dpdk::open(self.side, &self.name()?, (&self.here()?, peer), watch)?, row)))
    }

    fn not_here(&self, driver: Driver) -> Error {
        Error::Usage(format!("there is no --driver {driver} over {}: omit it", self.on.scheme()))
    }
}

impl LocatedLink for NamedLink {
    fn here(&self) -> Result<SideInfo, Error> {
        let bad = |error: am_transport::NameError| Error::Usage(error.to_string());
        let (which, settings) = self.on.settings_with_many("127.0.0.1:7000", |_| true).map_err(bad)?;
        let ip = which.parse().ok().map(|place: SocketAddr| place.ip());
        let frame = settings.filter(|(key, _)| *key == "frame").find_map(|(_, value)| value?.parse::<usize>().ok());
        Ok(SideInfo {
            name: self.node.clone(),
            address: self.address,
            ipv4: ip.and_then(|ip| if let IpAddr::V4(ip) = ip { Some(ip) } else { None }),
            ipv6: ip.and_then(|ip| if let IpAddr::V6(ip) = ip { Some(ip) } else { None }),
            unusable: None,
            core: self.core,
            mtu: match self.on.scheme() {
                _ if self.is_several => None,
                // The transport's default.
                "tcp" if frame.is_none() => Some(LocalTransport::Tcp.mtu()),
                _ => frame.and_then(|frame| u32::try_from(frame.checked_sub(ETHERNET_HEADER)?).ok()),
            },
        })
    }
}

impl Link for NamedLink {
    fn most(&self, driver: Driver, how: DriverOptions, near: &SideInfo, far: &SideInfo) -> Option<usize> {
        match (driver, self.on.scheme()) {
            (Driver::Raw, "udp") => {
                let near = SideInfo { mtu: near.mtu.or(Some(DEFAULT_MTU)), ..near.clone() };
                session::most(Driver::Udp, how, &near, far)
            }
            (Driver::Raw, "tcp") => Some(far.carries(near.mtu?).saturating_sub(IP_TCP_HEADERS)),
            _ => session::most(driver, how, near, far),
        }
    }

    fn open(
        &mut self,
        driver: Driver,
        peer: &SideInfo,
        how: DriverOptions,
        watch: &Watch,
    ) -> Result<Box<dyn Channel>, Error> {
        self.opened += 1;
        match driver {
            // The near side may ask for what this side does not have.
            other if self.is_several && other != Driver::Am => Err(self.not_here(other)),
            Driver::Am => Ok(Box::new(Am::over(self.transport(watch)?, self.side, &self.node, peer, how, watch)?)),
            Driver::Raw => self.raw(peer, how, watch),
            Driver::Udp if self.on.scheme() == "udp" => self.raw(peer, how, watch),
            Driver::Row(row) => self.row(row, peer, how, watch),
            Driver::Cacheline if self.on.scheme() == "shm" => {
                let name =
                    format!("{}-{}", self.on.settings("lab").map_or("am-bench", |(which, _)| which), self.opened);
                Ok(Box::new(Cacheline::open(self.side, &name, watch)?))
            }
            other => Err(self.not_here(other)),
        }
    }

    /// No link goes down here when a driver is opened. A near side that cannot open its own leaves without a message.
    fn timeouts(&self) -> Timeouts {
        let usual = Timeouts::default();
        if self.on.scheme() == "dpdk" { usual } else { Timeouts { open: PEER_TIMEOUT, ..usual } }
    }

    fn close(&mut self, channel: Box<dyn Channel>) {
        // The side that stays to confirm the end closes first. Otherwise a transport that opens at once would connect
        // the next driver to the end that is about to close; and DPDK's memif would unmap memory that the other side
        // still reads, which kills the process.
        sleep(2 * CONFIRM_TIME);
        drop(channel);
    }
}
