//! Round trips over 127.0.0.1 with both ends on one thread, so that only the calls are measured: bare sockets, and the
//! transports of this crate with nothing above them, in turns.
//!
//! ```text
//! cargo run --release -p am-sockets --example pingpong [BYTES [ROUNDS]]
//! ```
//!
//! The fastest of many short runs count, so the result is useful on a machine with other load.

mod frames;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use am_ring::Frame;
use am_sockets::{SocketOptions, tcp, udp};
use am_transport::{Transport, TransportExt};
use am_wire::{Address, Buffer};
use frames::{FLOW, build};

const STRETCHES: usize = 1000;
const TRIPS: u32 = 20;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse().expect("a number"));
    let (len, rounds) = (numbers.next().unwrap_or(64), numbers.next().unwrap_or(5));
    for _ in 0..rounds {
        let mut udp = through(acquaint(["udp:127.0.0.1:0"; 2].map(|name| udp::open(&options(name)).unwrap())), len);
        let mut tcp = through(acquaint(["tcp:127.0.0.1:0"; 2].map(|name| tcp::open(&options(name)).unwrap())), len);
        let times = compare([&mut bare_udp(len), &mut udp, &mut bare_tcp(len), &mut tcp]);
        for (kind, two) in ["UDP", "TCP"].iter().zip(times.chunks(2)) {
            let ratio = two[1].as_secs_f64() / two[0].as_secs_f64();
            println!("{len} bytes: bare {kind} {:?}, the transport {:?}, {ratio:.3} of it", two[0], two[1]);
        }
    }
}

fn options(name: &str) -> SocketOptions {
    SocketOptions::from_name(&name.parse().unwrap()).unwrap()
}

/// The time of an undisturbed trip: the first decile of short runs in turns.
fn compare<const N: usize>(mut trips: [&mut dyn FnMut(); N]) -> [Duration; N] {
    let mut times: [Vec<Duration>; N] = std::array::from_fn(|_| vec![]);
    for _ in 0..STRETCHES {
        for (trip, times) in trips.iter_mut().zip(&mut times) {
            let start = Instant::now();
            (0..TRIPS).for_each(|_| trip());
            times.push(start.elapsed() / TRIPS);
        }
    }
    times.map(|mut times| {
        times.sort_unstable();
        times[STRETCHES / 10]
    })
}

fn spin<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = look() {
            return found;
        }
    }
}

fn bare_udp(len: usize) -> impl FnMut() {
    let ends = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    ends.iter().for_each(|end| end.set_nonblocking(true).unwrap());
    let places = [0, 1].map(|end: usize| ends[end].local_addr().unwrap());
    let mut bytes = vec![0; 65536];
    move || {
        for (from, to) in [(0, 1), (1, 0)] {
            ends[from].send_to(&bytes[..len], places[to]).unwrap();
            // Each end has polled once and found nothing, like one that spins.
            assert!(ends[from].recv_from(&mut bytes).is_err());
            spin(|| ends[to].recv_from(&mut bytes).ok());
        }
    }
}

fn bare_tcp(len: usize) -> impl FnMut() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut ends = [near, listener.accept().unwrap().0];
    for end in &ends {
        end.set_nonblocking(true).unwrap();
        end.set_nodelay(true).unwrap();
    }
    let mut bytes = vec![0; 65536];
    move || {
        for (from, to) in [(0, 1), (1, 0)] {
            assert_eq!(ends[from].write(&bytes[..len]).unwrap(), len);
            assert!(ends[from].read(&mut bytes).is_err());
            assert_eq!(spin(|| ends[to].read(&mut bytes).ok()), len);
        }
    }
}

fn through<T: Transport>(mut ends: [T; 2], len: usize) -> impl FnMut() {
    let addresses = [0, 1].map(|end: usize| ends[end].caps().address);
    let mut frame = Some(build(&ends[0], addresses[1], len));
    move || {
        for (from, to) in [(0, 1), (1, 0)] {
            let mut sent = frame.take().expect("it came back");
            readdress(&mut sent, addresses[to], addresses[from]);
            assert!(ends[from].send(addresses[to], &sent), "room");
            ends[from].flush();
            assert!(next(&mut ends[from]).is_none());
            frame = Some(spin(|| next(&mut ends[to])));
        }
    }
}

/// Add each end's address to the other, and open the flow.
fn acquaint<T: Transport>(mut ends: [T; 2]) -> [T; 2] {
    let place = ends[1].caps().name.clone();
    ends[0].add_peer(&place).unwrap();
    for (from, to) in [(0, 1), (1, 0)] {
        // Over TCP the connection takes a while.
        spin(|| {
            let hello = build(&ends[from], Address::BROADCAST, 100);
            assert!(ends[from].send(Address::BROADCAST, &hello), "room");
            ends[from].flush();
            next(&mut ends[from]);
            next(&mut ends[to])
        });
        ends[from].steer(FLOW, true);
    }
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(5) {
        ends.iter_mut().for_each(|end| drop(next(end)));
    }
    ends
}

fn next(end: &mut impl Transport) -> Option<Frame> {
    let mut arrived = None;
    end.receive(64, &mut |frame| arrived = Some(frame));
    arrived
}

fn readdress(frame: &mut Frame, to: Address, from: Address) {
    let space = frame.space().expect("nobody shares it");
    space[..6].copy_from_slice(&to.0);
    space[6..12].copy_from_slice(&from.0);
}
