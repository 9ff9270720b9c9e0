//! Opens the transport.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::time::Instant;

use am_ring::own::{Own, high};
use am_transport::Steering;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
use socket2::{Protocol, Type};

use super::connection::Hello;
use super::deframer::{Inbox, MAX_CLAIMED};
use super::lifecycle::{LISTENER, MAX_CONNECTIONS, TIMER};
use super::outbox::STALL_TIMEOUT;
use super::{Counters, Tcp};
use crate::errors::doing;
use crate::local_address::LocalAddress;
use crate::{SocketOpenError, SocketOptions, peer_address, setup};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// The largest value of the longest frame.
const MAX_FRAME: usize = 1 << 20;
/// Events of one epoll call.
const MAX_EVENTS: usize = 64;

/// Open a listening TCP socket as a transport, with a pool of its own.
///
/// ```
/// use am_sockets::{SocketOptions, tcp};
/// use am_transport::Transport;
///
/// let socket = tcp::open(&SocketOptions::from_name(&"tcp:[::1]:0".parse()?)?)?;
/// assert!(socket.caps().reliable && socket.caps().ordered);
/// println!("{}", socket.caps().name); // tcp:[::1]:40713
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// See [`SocketOpenError`].
pub fn open(options: &SocketOptions) -> Result<Tcp, SocketOpenError> {
    setup::check_local(options.local)?;
    let max_frame = setup::check_frame(options.frame.unwrap_or(SocketOptions::TCP_FRAME), MAX_FRAME, false)?;
    setup::check_buffer(options.buffer, setup::MIN_BUFFER)?;
    let listener = listen(options)?;
    let local = listener.local_addr().map_err(doing("ask for a socket's place"))?;
    let (epoll, timer) = wakers(&listener).map_err(doing("set up an epoll descriptor"))?;
    let wake = Own::new(high(epoll.try_clone().map_err(doing("duplicate a descriptor"))?));
    let caps = setup::caps(options, ["tcp"; 2], local, max_frame, wake)?;
    let (address, steering) = (caps.address, Steering::at_a_place(options.ethertype, caps.address));
    let mut tcp = Tcp {
        inbox: Inbox {
            steering,
            pool: caps.pool.clone(),
            spare_frame: None,
            no_frame: 0,
            claimed: Vec::with_capacity(MAX_CLAIMED),
        },
        hello: Hello { address, port: local.port(), max_frame: max_frame as u32 },
        options: options.clone(),
        is_timer_running: false,
        accept_retry: None,
        events: Vec::with_capacity(MAX_EVENTS),
        connections: (0..MAX_CONNECTIONS).map(|_| None).collect(),
        live: Vec::with_capacity(MAX_CONNECTIONS),
        ended: Vec::with_capacity(MAX_CONNECTIONS),
        routes: BTreeMap::new(),
        peer_targets: vec![],
        introduction: vec![],
        receives: 0,
        alive: vec![],
        has_stranger: false,
        stall_timeout: STALL_TIMEOUT,
        last_tick: Instant::now(),
        own_address: LocalAddress::of(local)?,
        counters: Counters::default(),
        caps,
        local,
        listener,
        epoll,
        timer,
    };
    for peer in &options.peers {
        tcp.add_peer(peer_address::parse_peer("tcp", &peer.to_string(), local)?)?;
    }
    Ok(tcp)
}

fn listen(options: &SocketOptions) -> Result<Own<TcpListener>, SocketOpenError> {
    let local = options.local;
    let refused = |error| SocketOpenError::bind("tcp", local, error);
    let socket = setup::socket(local, Type::STREAM, Protocol::TCP).map_err(refused)?;
    // Connections inherit the size, and must have it from the start.
    if let Some(bytes) = options.buffer {
        setup::set_buffers(&socket, bytes)?;
    }
    setup::busy_poll(&socket, options)?;
    // Connections of an earlier run that are still closing must not prevent the bind.
    socket.set_reuse_address(true).map_err(refused)?;
    socket.bind(&local.into()).map_err(refused)?;
    socket.listen(BACKLOG).map_err(refused)?;
    Ok(Own::new(high(socket).into()))
}

/// The descriptors that wake a sleeping node: for connections, received bytes, room to send, and the next dial.
fn wakers(listener: &TcpListener) -> io::Result<(Own, Own)> {
    let epoll = high(epoll::create(CreateFlags::CLOEXEC)?);
    let timer = high(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?);
    epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
    Ok((epoll.into(), timer.into()))
}
