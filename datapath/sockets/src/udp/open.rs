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

use super::flood_limiter::FloodLimiter;
use super::peer_table::PeerTable;
use super::receive::ReceiveStage;
use super::send::Sender;
use super::{Counters, Udp};
use crate::errors::doing;
use crate::{SocketOpenError, SocketOptions, identity, path_mtu, setup};

/// The most peer addresses, added or learned: as many as the peers that a node with several transports knows.
pub(super) const MAX_PEERS: usize = 16_384;

/// A jumbo frame. Longer ones, which loopback would carry, take more memory than they save time.
const JUMBO: usize = 9014;

/// Room for a few thousand short datagrams, because nothing else holds back a sender.
const DEFAULT_BUFFER: usize = 4 << 20;

/// Open a UDP socket as a transport, with a pool of its own.
///
/// ```
/// use am_sockets::{SocketOptions, udp};
/// use am_transport::Transport;
///
/// let socket = udp::open(&SocketOptions::from_name(&"udp:127.0.0.1:0".parse()?)?)?;
/// println!("{} ({})", socket.caps().name, socket.caps().mode); // udp:127.0.0.1:40713 (udp, mmsg, gso, gro)
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// See [`SocketOpenError`].
pub fn open(options: &SocketOptions) -> Result<Udp, SocketOpenError> {
    open_with(options, None)
}

/// As [`open`], with an existing pool if one is given.
///
/// # Errors
/// See [`SocketOpenError`].
pub fn open_with(options: &SocketOptions, pool: Option<Pool>) -> Result<Udp, SocketOpenError> {
    SocketOpenError::check_local(options.local)?;
    let max_frame = choose_max_frame(options)?;
    // The buffer must hold a whole datagram.
    setup::check_buffer(options.buffer, max_frame.max(setup::MIN_BUFFER))?;
    let socket = bind(options)?;
    let state = UdpSocketState::new((&socket).into()).map_err(doing("set up a UDP socket"))?;
    disable_unused(&socket, options, options.gro)?;
    let (gso, gro) = offloads(options, &state);
    let socket: std::net::UdpSocket = socket.into();
    let local = socket.local_addr().map_err(doing("ask for a socket's place"))?;
    let wake: OwnedFd = socket.try_clone().map_err(doing("duplicate a descriptor"))?.into();
    let connected =
        options.connect.map(|peer| crate::peer_address::parse_peer("udp", &peer.to_string(), local)).transpose()?;
    if let Some(peer) = connected {
        socket.connect(peer).map_err(doing("connect a UDP socket"))?;
    }
    let caps = caps(local, mode(gso, gro), max_frame, setup::pool(pool, options, max_frame)?, vec![Arc::new(wake)]);
    let mut udp = Udp {
        steering: Steering::at_a_place(options.ethertype, caps.address),
        ethertype: options.ethertype,
        peer_table: PeerTable::new(MAX_PEERS, Instant::now()),
        flood_limiter: FloodLimiter::new(Instant::now()),
        sender: Sender::new(gso, connected.is_some()),
        stage: ReceiveStage::new(state, gro, max_frame),
        spare_frame: None,
        counters: Counters::default(),
        broken: None,
        caps,
        socket,
        connected,
        local,
    };
    connected.map_or(Ok(()), |peer| udp.add_peer(peer))?;
    options
        .peers
        .iter()
        .try_for_each(|peer| udp.add_peer(crate::peer_address::parse_peer("udp", &peer.to_string(), local)?))?;
    Ok(udp)
}

fn caps(local: SocketAddr, mode: String, max_frame: usize, pool: Pool, wake: Vec<Arc<OwnedFd>>) -> Caps {
    Caps {
        name: format!("udp:{local}"),
        mode,
        address: identity::choose_address(local),
        max_frame,
        reliable: false,
        ordered: false,
        hears_all: false,
        pool,
        wake: Some(wake),
    }
}

/// Whether GSO and GRO are wanted, and supported by the kernel.
fn offloads(options: &SocketOptions, state: &UdpSocketState) -> (bool, bool) {
    (options.gso && state.max_gso_segments() > 1, options.gro && state.gro_segments() > 1)
}

fn mode(gso: bool, gro: bool) -> String {
    let parts = [("udp, mmsg", true), (", gso", gso), (", gro", gro)];
    parts.into_iter().filter(|(_, used)| *used).map(|(part, _)| part).collect()
}

/// The longest frame: the wanted one, if it is possible.
fn choose_max_frame(options: &SocketOptions) -> Result<usize, SocketOpenError> {
    let by_mtu = path_mtu::longest_datagram(options.local);
    let by_ip = u16::MAX as usize - path_mtu::headers(options.local);
    match options.frame {
        None => Ok(by_mtu.min(JUMBO)),
        Some(asked) if options.fragment => setup::check_frame(asked, by_ip, false),
        Some(asked) => setup::check_frame(asked, by_mtu, by_mtu < by_ip),
    }
}

pub(super) fn bind(options: &SocketOptions) -> Result<Socket, SocketOpenError> {
    let refused = |error| SocketOpenError::bind("udp", options.local, error);
    let socket = setup::socket(options.local, Type::DGRAM, Protocol::UDP).map_err(refused)?;
    prepare(&socket, options)?;
    socket.bind(&options.local.into()).map_err(refused)?;
    Ok(socket)
}

fn prepare(socket: &Socket, options: &SocketOptions) -> Result<(), SocketOpenError> {
    match options.buffer {
        Some(bytes) => setup::set_buffers(socket, bytes)?,
        None => setup::enlarge(socket, DEFAULT_BUFFER),
    }
    setup::busy_poll(socket, options)
}

/// Switch off what [`UdpSocketState`] has set up, except GRO and the ban on IP fragments. The rest costs time for each
/// datagram: its destination address, its time stamp, and congestion marks.
pub(super) fn disable_unused(socket: &Socket, options: &SocketOptions, gro: bool) -> Result<(), SocketOpenError> {
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
