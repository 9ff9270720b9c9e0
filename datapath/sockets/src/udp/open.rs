//! Opens the transport.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use am_ring::Pool;
use am_transport::{Caps, Steering};
use nix::sys::socket::{setsockopt, sockopt};
use quinn_udp::UdpSocketState;
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover};
use socket2::{Protocol, Socket, Type};

use super::places::Places;
use super::receive::Stage;
use super::send::Sender;
use super::unheard::Unheard;
use super::{Count, Udp};
use crate::errors::doing;
use crate::{OpenError, Options, identity, path, tune};

/// The most peer addresses, added or learned: as many as the peers that a node with several transports knows.
pub(super) const PLACES: usize = 16_384;

/// A jumbo frame. Longer ones, which loopback would carry, take more memory than they save time.
const JUMBO: usize = 9014;

/// Room for a few thousand short datagrams, because nothing else holds back a sender.
const BUFFER: usize = 4 << 20;

/// Open a UDP socket as a transport, with a pool of its own.
///
/// ```
/// use am_sockets::{Options, udp};
/// use am_transport::Transport;
///
/// let socket = udp::open(&Options::from_name(&"udp:127.0.0.1:0".parse()?)?)?;
/// println!("{} ({})", socket.caps().name, socket.caps().mode); // udp:127.0.0.1:40713 (udp, mmsg, gso, gro)
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// See [`OpenError`].
pub fn open(options: &Options) -> Result<Udp, OpenError> {
    open_with(options, None)
}

/// As [`open`], with an existing pool if one is given.
///
/// # Errors
/// See [`OpenError`].
pub fn open_with(options: &Options, pool: Option<Pool>) -> Result<Udp, OpenError> {
    OpenError::check_place(options.local)?;
    let max_frame = longest(options)?;
    // The buffer must hold a whole datagram.
    tune::check_buffer(options.buffer, max_frame.max(tune::LEAST_BUFFER))?;
    let socket = bind(options)?;
    let state = UdpSocketState::new((&socket).into()).map_err(doing("set up a UDP socket"))?;
    simplify(&socket, options, options.gro)?;
    let (gso, gro) = offloads(options, &state);
    let socket: std::net::UdpSocket = socket.into();
    let local = socket.local_addr().map_err(doing("ask for a socket's place"))?;
    let wake: OwnedFd = socket.try_clone().map_err(doing("duplicate a descriptor"))?.into();
    let connected = options.connect.map(|peer| crate::place::read("udp", &peer.to_string(), local)).transpose()?;
    if let Some(peer) = connected {
        socket.connect(peer).map_err(doing("connect a UDP socket"))?;
    }
    let caps = caps(local, mode(gso, gro), max_frame, tune::pool(pool, options, max_frame)?, vec![Arc::new(wake)]);
    let mut udp = Udp {
        steering: Steering::at_a_place(options.ethertype, caps.address),
        ethertype: options.ethertype,
        places: Places::new(PLACES, Instant::now()),
        unheard: Unheard::new(Instant::now()),
        sender: Sender::new(gso, connected.is_some()),
        stage: Stage::new(state, gro, max_frame),
        blank: None,
        count: Count::default(),
        broken: None,
        caps,
        socket,
        connected,
        local,
    };
    connected.map_or(Ok(()), |peer| udp.introduce_at(peer))?;
    options.peers.iter().try_for_each(|peer| udp.introduce_at(crate::place::read("udp", &peer.to_string(), local)?))?;
    Ok(udp)
}

fn caps(local: SocketAddr, mode: String, max_frame: usize, pool: Pool, wake: Vec<Arc<OwnedFd>>) -> Caps {
    Caps {
        name: format!("udp:{local}"),
        mode,
        address: identity::choose(local),
        max_frame,
        reliable: false,
        ordered: false,
        hears_all: false,
        pool,
        wake: Some(wake),
    }
}

/// Whether GSO and GRO are wanted, and supported by the kernel.
fn offloads(options: &Options, state: &UdpSocketState) -> (bool, bool) {
    (options.gso && state.max_gso_segments() > 1, options.gro && state.gro_segments() > 1)
}

fn mode(gso: bool, gro: bool) -> String {
    let parts = [("udp, mmsg", true), (", gso", gso), (", gro", gro)];
    parts.into_iter().filter(|(_, used)| *used).map(|(part, _)| part).collect()
}

/// The longest frame: the wanted one, if it is possible.
fn longest(options: &Options) -> Result<usize, OpenError> {
    let by_mtu = path::longest_datagram(options.local);
    let by_ip = u16::MAX as usize - path::headers(options.local);
    match options.frame {
        None => Ok(by_mtu.min(JUMBO)),
        Some(asked) if options.fragment => tune::check_frame(asked, by_ip, false),
        Some(asked) => tune::check_frame(asked, by_mtu, by_mtu < by_ip),
    }
}

pub(super) fn bind(options: &Options) -> Result<Socket, OpenError> {
    let refused = |error| OpenError::bind("udp", options.local, error);
    let socket = tune::socket(options.local, Type::DGRAM, Protocol::UDP).map_err(refused)?;
    prepare(&socket, options)?;
    socket.bind(&options.local.into()).map_err(refused)?;
    Ok(socket)
}

fn prepare(socket: &Socket, options: &Options) -> Result<(), OpenError> {
    match options.buffer {
        Some(bytes) => tune::set_buffers(socket, bytes)?,
        None => tune::enlarge(socket, BUFFER),
    }
    tune::busy_poll(socket, options)
}

/// Switch off what [`UdpSocketState`] has set up, except GRO and the ban on IP fragments. The rest costs time for each
/// datagram: its destination address, its time stamp, and congestion marks.
pub(super) fn simplify(socket: &Socket, options: &Options, gro: bool) -> Result<(), OpenError> {
    let failed = doing("set up a UDP socket");
    let set = |result: nix::Result<()>| result.map_err(|errno| failed(errno.into()));
    // A kernel without one of these has nothing to switch off.
    if !gro {
        let _ = setsockopt(socket, sockopt::UdpGroSegment, &false);
    }
    let _ = setsockopt(socket, sockopt::ReceiveTimestampns, &false);
    if options.local.is_ipv4() {
        set(setsockopt(socket, sockopt::Ipv4PacketInfo, &false))?;
        socket.set_recv_tos_v4(false).map_err(&failed)?;
    } else {
        set(setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &false))?;
        socket.set_recv_tclass_v6(false).map_err(&failed)?;
    }
    if options.fragment {
        if options.local.is_ipv4() {
            set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DONT).map_err(|errno| failed(errno.into()))?;
        } else {
            set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DONT).map_err(|errno| failed(errno.into()))?;
            set(setsockopt(socket, sockopt::Ipv6DontFrag, &false))?;
        }
    }
    Ok(())
}
