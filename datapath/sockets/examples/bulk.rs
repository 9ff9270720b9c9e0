//! Compares full frames one way over 127.0.0.1 with a bare TCP stream that is written and read 128 KiB at a time, as
//! iperf3 does. They run in turns, and the median of the ratios counts.
//!
//! ```text
//! cargo run --release -p am-sockets --example bulk [NAME [ROUNDS]]        tcp:127.0.0.1:0, udp:127.0.0.1:0,frame=65507, ...
//! ```

mod frames;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use am_sockets::{SocketOptions, tcp, udp};
use am_transport::{Transport, TransportExt, TransportName};
use am_wire::{Address, Buffer};
use frames::{FLOW, build};

const TIME: Duration = Duration::from_millis(400);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "tcp:127.0.0.1:0".into());
    let rounds = arguments.next().map_or(5, |rounds| rounds.parse().expect("a number"));
    let mut ratios: Vec<f64> = (0..rounds).map(|_| round(&name)).collect();
    ratios.sort_by(f64::total_cmp);
    println!("median {:.3}", ratios[ratios.len() / 2]);
}

fn round(name: &str) -> f64 {
    let (bare, ours) = (bare(), through(name));
    println!("bare TCP {bare:.2} GB/s, {name} {ours:.2} GB/s, {:.3} of it", ours / bare);
    ours / bare
}

fn rate(bytes: usize, start: Instant) -> f64 {
    bytes as f64 / start.elapsed().as_secs_f64() / 1e9
}

fn bare() -> f64 {
    const PIECE: usize = 128 << 10;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    let reader = thread::spawn(move || {
        let (mut bytes, mut piece, start) = (0, vec![0; PIECE], Instant::now());
        loop {
            match far.read(&mut piece).unwrap() {
                0 => return rate(bytes, start),
                more => bytes += more,
            }
        }
    });
    let (piece, start) = (vec![7; PIECE], Instant::now());
    while start.elapsed() < TIME {
        near.write_all(&piece).unwrap();
    }
    drop(near);
    reader.join().unwrap()
}

/// Bytes that arrive within the time.
fn through(name: &str) -> f64 {
    let (say, heard) = channel();
    let receiver = {
        let name = name.to_owned();
        thread::spawn(move || receive(&name, say))
    };
    let (mut near, (place, peer)) = (open(name), heard.recv().unwrap());
    near.add_peer(&place).unwrap();
    let (mut hello, mut answered) = (Instant::now(), false);
    while !answered {
        // Wait for an answer: over TCP the connection takes a while.
        if hello.elapsed() > Duration::from_millis(5) {
            hello = Instant::now();
            let frame = build(&*near, Address::BROADCAST, 100);
            assert!(near.send(Address::BROADCAST, &frame), "room");
        }
        near.flush();
        near.receive(64, &mut |_| answered = true);
    }
    let full = build(&*near, peer, near.caps().max_frame);
    let start = Instant::now();
    while start.elapsed() < 2 * TIME && !receiver.is_finished() {
        for _ in 0..64 {
            if !near.send(peer, &full) {
                break;
            }
        }
        near.flush();
        near.receive(64, &mut |_| ());
    }
    receiver.join().unwrap()
}

fn receive(name: &str, say: Sender<(String, Address)>) -> f64 {
    let mut far = open(name);
    say.send((far.caps().name.split_once(':').unwrap().1.into(), far.caps().address)).unwrap();
    let (mut start, mut bytes) = (None::<Instant>, 0);
    loop {
        let mut hello = false;
        far.receive(64, &mut |frame| match frame.bytes().len() {
            100 => hello = true,
            len => bytes += len,
        });
        if hello {
            let frame = build(&*far, Address::BROADCAST, 100);
            assert!(far.send(Address::BROADCAST, &frame), "room");
        }
        far.flush();
        if bytes > 0 && start.get_or_insert_with(Instant::now).elapsed() > TIME {
            return rate(bytes, start.unwrap());
        }
    }
}

fn open(name: &str) -> Box<dyn Transport> {
    let name: TransportName = name.parse().unwrap();
    let options = SocketOptions::from_name(&name).unwrap();
    let mut end: Box<dyn Transport> = match name.scheme() {
        "udp" => Box::new(udp::open(&options).unwrap()),
        _ => Box::new(tcp::open(&options).unwrap()),
    };
    end.steer(FLOW, true);
    end
}
