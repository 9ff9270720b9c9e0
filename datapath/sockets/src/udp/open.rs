//! Opens the transport.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

use am_ring::own::{Own, high};
use am_transport::{Caps, Steering};
use nix::sys::socket::{setsockopt, sockopt};
use quinn_udp::UdpSocketState;
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover};
use socket2::{Protocol, Socket, Type};

use super::out_of_band::UdpOutOfBand;
use super::peer_table::{FloodLimiter, MAX_PEERS, PeerTable};
use super::receive::ReceiveStage;
use super::send::Sender;
use super::{Counters, Udp};
use crate::errors::doing;
use crate::local_address::LocalAddress;
use crate::{SocketOpenError, SocketOptions, peer_address, setup};

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
    setup::check_local(options.local)?;
    let max_frame = choose_max_frame(options)?;
    // The buffer must hold a whole datagram.
    setup::check_buffer(options.buffer, max_frame.max(setup::MIN_BUFFER))?;
    let (socket, state) = bind(options)?;
    // Whether they are wanted, and supported by the kernel.
    let (gso, gro) = (options.gso && state.max_gso_segments() > 1, options.gro && state.gro_segments() > 1);
    let socket: UdpSocket = high(socket).into();
    let local = socket.local_addr().map_err(doing("ask for a socket's place"))?;
    let wake = Own::new(high(socket.try_clone().map_err(doing("duplicate a descriptor"))?.into()));
    let parse = |peer: std::net::SocketAddr| peer_address::parse_peer("udp", &peer.to_string(), local);
    let connected = options.connect.map(parse).transpose()?;
    if let Some(peer) = connected {
        socket.connect(peer).map_err(doing("connect a UDP socket"))?;
    }
    let mode = ["udp, mmsg", if gso { ", gso" } else { "" }, if gro { ", gro" } else { "" }].concat();
    let (socket, peer_table) = (Arc::new(Own::new(socket)), PeerTable::new(MAX_PEERS, Instant::now()));
    let out_of_band = Arc::new(UdpOutOfBand::new(socket.clone(), peer_table.shared()));
    let caps = setup::caps(options, ["udp", &mode], local, max_frame, wake)?;
    let caps = Caps { out_of_band: Some(out_of_band.clone()), ..caps };
    let mut udp = Udp {
        steering: Steering::at_a_place(options.ethertype, caps.address),
        ethertype: options.ethertype,
        peer_table,
        flood_limiter: FloodLimiter::new(Instant::now()),
        sender: Sender::new(gso, connected.is_some()),
        stage: ReceiveStage::new(state, gro, max_frame),
        spare_frame: None,
        counters: Counters::default(),
        own_address: LocalAddress::of(local)?,
        broken: None,
        caps,
        socket,
        out_of_band,
        connected,
        local,
    };
    for peer in connected.map(Ok).into_iter().chain(options.peers.iter().map(|peer| parse(*peer))) {
        udp.add_peer(peer?)?;
    }
    Ok(udp)
}

/// The longest frame: the wanted one, if it is possible.
fn choose_max_frame(options: &SocketOptions) -> Result<usize, SocketOpenError> {
    let by_mtu = setup::longest_datagram(options.local);
    let by_ip = u16::MAX as usize - setup::headers(options.local);
    match options.frame {
        None => Ok(by_mtu.min(JUMBO)),
        Some(asked) if options.fragment => setup::check_frame(asked, by_ip, false),
        Some(asked) => setup::check_frame(asked, by_mtu, by_mtu < by_ip),
    }
}

fn bind(options: &SocketOptions) -> Result<(Socket, UdpSocketState), SocketOpenError> {
    let refused = |error| SocketOpenError::bind("udp", options.local, error);
    let socket = setup::socket(options.local, Type::DGRAM, Protocol::UDP).map_err(refused)?;
    match options.buffer {
        Some(bytes) => setup::set_buffers(&socket, bytes)?,
        None => setup::enlarge(&socket, DEFAULT_BUFFER),
    }
    setup::busy_poll(&socket, options)?;
    bind_to(&socket, options.local).map_err(refused)?;
    let state = UdpSocketState::new((&socket).into()).map_err(doing("set up a UDP socket"))?;
    disable_unused(&socket, options).map_err(doing("set up a UDP socket"))?;
    Ok((socket, state))
}

/// Bind to an address that is free, or whose last socket has [ended](super::Udp) and is still open in a forked child.
fn bind_to(socket: &Socket, local: SocketAddr) -> std::io::Result<()> {
    match socket.bind(&local.into()) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            // The kernel shares an address only if both sockets allow it. One that has not ended does not.
            socket.set_reuse_address(true)?;
            socket.bind(&local.into())?;
            socket.set_reuse_address(false)
        }
        bound => bound,
    }
}

/// Switch off what [`UdpSocketState`] has set up, except GRO and the ban on IP fragments. The rest costs time for each
/// datagram: its destination address, its time stamp, and congestion marks.
fn disable_unused(socket: &Socket, options: &SocketOptions) -> std::io::Result<()> {
    // A kernel without one of these has nothing to switch off.
    if !options.gro {
        let _ = setsockopt(socket, sockopt::UdpGroSegment, &false);
    }
    let _ = setsockopt(socket, sockopt::ReceiveTimestampns, &false);
    if options.local.is_ipv4() {
        setsockopt(socket, sockopt::Ipv4PacketInfo, &false)?;
        socket.set_recv_tos_v4(false)?;
        if options.fragment {
            set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DONT)?;
        }
    } else {
        setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &false)?;
        socket.set_recv_tclass_v6(false)?;
        if options.fragment {
            set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DONT)?;
            setsockopt(socket, sockopt::Ipv6DontFrag, &false)?;
        }
    }
    Ok(())
}
