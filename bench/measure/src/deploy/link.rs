//! Opens drivers on a transport that is named: an interface, or one that joins two processes or two machines.

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::thread::sleep;
use std::time::Duration;

use am_afxdp::{Interface, Xdp, XdpOptions};
use am_api::transports::OpenError;
use am_api::{Idle, Node};
use am_transport::{NameError, Transport, TransportName};
use am_wire::Address;
use am_wire::frame::ETHERNET_HEADER;
use nix::ifaddrs::getifaddrs;

use crate::channel::{Channel, Timeouts};
use crate::deploy::processes::{LocalTransport, STAGE};
use crate::driver::Driver;
use crate::drivers::am::{self, Am, facility};
use crate::drivers::cacheline::Cacheline;
use crate::drivers::dp::DpChannel;
use crate::drivers::queues::Queues;
use crate::drivers::raw::{RawChannel, dpdk_address, over_dpdk};
use crate::drivers::sleeping::Sleeping;
use crate::drivers::tcp::{IP_TCP_HEADERS, Tcp, WriteBatching};
use crate::drivers::udp::{Udp, socket_address};
use crate::error::Error;
use crate::loops::CONFIRM_TIME;
use crate::plan::{DriverOptions, Side, SideInfo};
use crate::session::{self, Link, Opened};
use crate::watch::{PEER_TIMEOUT, Watch};

/// The interface whose IP addresses the bare sockets use if none is named.
const LOOPBACK: &str = "lo";

/// The default payload of a bare socket's frame.
const DEFAULT_MTU: u32 = 1500;

/// A NIC whose link has just come up cannot use its IPv6 address yet.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(3);

/// One side of a wire.
#[derive(Clone, Debug)]
pub struct NamedLink {
    side: Side,
    pub(crate) node: String,
    core: Option<usize>,
    /// Its transport, as named on the command line.
    on: TransportName,
    /// Present if that is one interface.
    interface: Option<Interface>,
    is_several: bool,
    /// Its link address if it is fixed; else all zero.
    address: [u8; 6],
    /// The number of drivers opened so far. Both sides open the same ones.
    opened: usize,
}

/// Replace port 0 by a free port. Each driver opens it again, and the other side has to find all of them at one
/// address.
fn with_port(name: &str) -> Result<String, Error> {
    let (name_alone, settings) = am_api::transports::split_settings(name);
    let (scheme, place) = name_alone.split_once(':').unwrap_or((name_alone, ""));
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
    /// The side of a node called `node` on this transport, or on this interface of the calling thread's host.
    pub(crate) fn new(side: Side, node: &str, on: &str, core: Option<usize>) -> Result<NamedLink, Error> {
        let interface = on.strip_prefix("xdp:").filter(|_| is_interface(on)).map(Interface::find).transpose()?;
        let on: Vec<String> = am_api::transports::split(on).into_iter().map(with_port).collect::<Result<_, _>>()?;
        let is_several = on.len() > 1;
        let on: TransportName = on.join("+").parse().map_err(|error| Error::Usage(format!("--on: {error}")))?;
        let address = if on.scheme() == "dpdk" && !is_several { dpdk_address(&on)? } else { [0; 6] };
        Ok(NamedLink { side, node: node.to_owned(), core, on, interface, is_several, address, opened: 0 })
    }

    pub(crate) fn on(&self) -> String {
        self.on.to_string()
    }

    /// The present state of the interface, if it is one.
    pub(crate) fn interface(&self) -> Result<Option<Interface>, Error> {
        self.interface.as_ref().map(|known| Ok(Interface::find(&known.name)?)).transpose()
    }

    /// Open a node that measures nothing. It sleeps while it is idle.
    pub(crate) fn node(&self, how: DriverOptions, watch: &Watch) -> Result<Node, Error> {
        am::node(Idle::default(), &self.node, how, self.transport(how, watch)?.0)
    }

    /// The name of the next driver's transport.
    fn name(&self) -> Result<TransportName, Error> {
        let name = self.on().replace(STAGE, &self.opened.to_string());
        name.parse().map_err(|error: NameError| Error::Usage(error.to_string()))
    }

    /// The transport of the next driver, and where its XDP program runs.
    fn transport(
        &self,
        how: DriverOptions,
        watch: &Watch,
    ) -> Result<(Box<dyn Transport>, Option<&'static str>), Error> {
        open(&self.name()?.to_string(), how, watch)
    }

    /// The interface of bare sockets, what they are called in reports, and what the two sides carry.
    fn kernel(&self, peer: &SideInfo) -> Result<(&str, String, SideInfo, usize), Error> {
        let here = self.here()?;
        let mtu = peer.carries(here.mtu.unwrap_or(DEFAULT_MTU));
        Ok(match &self.interface {
            Some(Interface { name, driver, .. }) => (name, format!("{driver} kernel"), here, mtu),
            None => (LOOPBACK, "kernel".to_owned(), here, mtu),
        })
    }

    fn udp(&self, peer: &SideInfo, watch: &Watch) -> Result<Udp, Error> {
        watch.retry(
            ADDRESS_TIMEOUT,
            Duration::ZERO,
            |error| matches!(error, Error::NoIp(_)),
            || {
                let (interface, mode, here, mtu) = self.kernel(peer)?;
                Udp::open(self.side, interface, mtu, (&here, peer), mode)
            },
        )
    }

    fn tcp(&self, write_batching: WriteBatching, peer: &SideInfo, watch: &Watch) -> Result<Tcp, Error> {
        let (interface, mode, here, mtu) = self.kernel(peer)?;
        Tcp::open((self.side, write_batching), interface, mtu, (&here, peer), mode, watch)
    }

    /// Directed Point, on a node of its own.
    fn dp(&self, peer: &SideInfo, how: DriverOptions, watch: &Watch) -> Result<DpChannel, Error> {
        let (transport, xdp) = self.transport(how, watch)?;
        let names = match self.side {
            Side::Near => [self.node.as_str(), &peer.name],
            Side::Far => [peer.name.as_str(), &self.node],
        };
        DpChannel::open((am::node(Idle::spinning(), &self.node, how, transport)?, xdp), self.side, names, watch)
    }

    fn not_here(&self, driver: Driver) -> Error {
        Error::Usage(format!("there is no --driver {driver} over {}: omit it", self.on.scheme()))
    }
}

impl Link for NamedLink {
    fn here(&self) -> Result<SideInfo, Error> {
        if let Some(interface) = self.interface()? {
            return of_interface(&self.node, &interface, self.core);
        }
        let bad = |error: NameError| Error::Usage(error.to_string());
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

    fn max_payload(&self, driver: Driver, how: DriverOptions, near: &SideInfo, far: &SideInfo) -> Option<usize> {
        match (driver, self.on.scheme()) {
            (Driver::Raw, "udp") => {
                let near = SideInfo { mtu: near.mtu.or(Some(DEFAULT_MTU)), ..near.clone() };
                session::max_payload(Driver::Udp, how, &near, far)
            }
            (Driver::Raw, "tcp") => Some(far.carries(near.mtu?).saturating_sub(IP_TCP_HEADERS)),
            _ => session::max_payload(driver, how, near, far),
        }
    }

    fn open(&mut self, driver: Driver, peer: &SideInfo, how: DriverOptions, watch: &Watch) -> Opened {
        self.opened += 1;
        // The interface of a server may get another MTU or address.
        self.interface = self.interface()?;
        if self.is_several && driver != Driver::Am {
            // The near side may ask for what this side does not have.
            return Err(self.not_here(driver));
        }
        let like_ours = WriteBatching::like_ours(how);
        Ok(match (driver, &self.interface, self.on.scheme()) {
            (Driver::Am, ..) => {
                Box::new(Am::over(self.transport(how, watch)?, self.side, &self.node, peer, how, watch)?)
            }
            (Driver::Dp, ..) => Box::new(self.dp(peer, how, watch)?),
            (Driver::Cacheline, _, "shm") => {
                let which = self.on.settings("lab").map_or("am-bench", |(which, _)| which);
                Box::new(Cacheline::open(self.side, &format!("{which}-{}", self.opened), watch)?)
            }
            (Driver::Cacheline, ..) => return Err(self.not_here(driver)),
            (Driver::Udp, Some(_), _) | (Driver::Raw | Driver::Udp, None, "udp") => Box::new(self.udp(peer, watch)?),
            (Driver::UdpSleeping, Some(_), _) => Box::new(Sleeping::new(self.udp(peer, watch)?)),
            (Driver::Tcp, Some(_), _) | (Driver::Raw | Driver::Tcp, None, "tcp") => {
                Box::new(self.tcp(like_ours, peer, watch)?)
            }
            (Driver::TcpNagle, Some(_), _) => Box::new(self.tcp(WriteBatching::Kernel, peer, watch)?),
            (Driver::TcpSleeping, Some(_), _) => Box::new(Sleeping::new(self.tcp(like_ours, peer, watch)?)),
            (Driver::Raw, None, "sim") => Box::new(Queues::simulated(&self.name()?, watch)?),
            (Driver::Buffers | Driver::Interpreted, ..) => {
                // Without an interface, the address of the other side is known once it sends.
                let to = if self.interface.is_some() { peer.link() } else { Address::BROADCAST };
                let (transport, xdp) = self.transport(how, watch)?;
                Box::new(Queues::new(transport, to, driver).carrying(peer, xdp))
            }
            (_, Some(interface), _) => Box::new(RawChannel::open(interface, how.xdp, peer)?.of(driver)),
            (_, None, "dpdk") if !driver.is_kernel() => {
                Box::new(over_dpdk(self.side, &self.name()?, (&self.here()?, peer), watch)?.of(driver))
            }
            _ => return Err(self.not_here(driver)),
        })
    }

    /// Only the link of a NIC may go down when a driver is opened. A near side that cannot open its own leaves without
    /// a message.
    fn timeouts(&self) -> Timeouts {
        let usual = Timeouts::default();
        let is_nic = self.interface.is_some() || self.on.scheme() == "dpdk";
        if is_nic { usual } else { Timeouts { open: PEER_TIMEOUT, ..usual } }
    }

    fn close(&mut self, channel: Box<dyn Channel>) {
        // The side that stays to confirm the end closes first. Otherwise a transport that opens at once would connect
        // the next driver to the end that is about to close; and DPDK's memif would unmap memory that the other side
        // still reads, which kills the process.
        if self.interface.is_none() {
            sleep(2 * CONFIRM_TIME);
        }
        drop(channel);
    }
}

/// The description of a node called `name` on this interface.
fn of_interface(name: &str, interface: &Interface, core: Option<usize>) -> Result<SideInfo, Error> {
    let all = getifaddrs().map_err(|e| Error::System { doing: "asking for IP addresses", source: e.into() })?;
    let mine: Vec<_> =
        all.filter(|entry| entry.interface_name == interface.name).filter_map(|entry| entry.address).collect();
    let mut unusable = None;
    // The other side would wait for an address that is not usable now.
    let mut usable = |ip: IpAddr| {
        // The kernel refuses an IPv6 address until it knows that no other host has it.
        let failed = UdpSocket::bind(socket_address(ip, interface.index)).err();
        let is_usable = failed.is_none();
        unusable = failed.map(|error| format!("{ip}: {error}")).or(unusable.take());
        is_usable
    };
    let ipv4 = mine.iter().filter_map(|at| Some(at.as_sockaddr_in()?.ip())).find(|ip| usable((*ip).into()));
    let ipv6 = mine.iter().filter_map(|at| Some(at.as_sockaddr_in6()?.ip()));
    let ipv6 = ipv6.filter(|ip| ip.is_unicast_link_local()).find(|ip| usable((*ip).into()));
    let (name, address, mtu) = (name.to_owned(), interface.address.0, Some(interface.mtu));
    Ok(SideInfo { name, address, ipv4, ipv6, unusable, core, mtu })
}

pub(super) const XDP: &str = "xdp:";

/// Devices that cannot be opened until their other end is there.
const MEETING_DEVICES: [&str; 2] = ["dpdk:net_memif", "dpdk:net_virtio_user"];

/// The pause between two attempts to open one of them.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Whether this names one interface and nothing else.
pub fn is_interface(on: &str) -> bool {
    on.starts_with(XDP) && am_api::transports::split(on).len() == 1
}

/// Open the transport of this name. If it has an XDP program, the name of its attach mode is returned. Some devices cannot
/// be opened until the other side is ready, so opening them is tried again.
pub fn open(on: &str, how: DriverOptions, watch: &Watch) -> Result<(Box<dyn Transport>, Option<&'static str>), Error> {
    if let Some(interface) = on.strip_prefix(XDP).filter(|_| is_interface(on)) {
        let xdp = open_xdp(interface, how)?;
        let attach = xdp.mode().attach.name();
        return Ok((Box::new(xdp), Some(attach)));
    }
    let bad =
        |error: OpenError| if error.is_about_the_name() { Error::Usage(error.to_string()) } else { facility(error) };
    let needs_other_end = MEETING_DEVICES.iter().any(|device| on.starts_with(device));
    let may_pass = |error: &Error| needs_other_end && matches!(error, Error::Facility(_));
    let open = || am_api::transports::open(on).map_err(bad);
    Ok((watch.retry(PEER_TIMEOUT, RETRY_INTERVAL, may_pass, open)?, None))
}

/// Open AF_XDP on this interface.
pub(crate) fn open_xdp(interface: &str, how: DriverOptions) -> Result<Xdp, Error> {
    let options = XdpOptions { attach: how.xdp.attach(), ..XdpOptions::new(interface) };
    Ok(am_afxdp::open(&options)?)
}
