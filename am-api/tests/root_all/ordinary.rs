//! Ordinary traffic over the same interface while messages flow.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::wires::{Seen, against, connect, exchange, node};
use am_netns::{Host, VethOptions, veth};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrIn, recv, sendto, setsockopt, socket, sockopt,
};

const BYTES: usize = 20 << 20;

/// A TCP connection that carries [`BYTES`] from alpha to beta.
fn tcp(alpha: &Host, beta: &Host) {
    let listener = beta.enter(|| TcpListener::bind("10.77.0.2:7000")).unwrap().unwrap();
    let mut out = alpha.enter(|| TcpStream::connect("10.77.0.2:7000")).unwrap().unwrap();
    let (mut into, _) = listener.accept().unwrap();
    let sent: Vec<u8> = (0..BYTES).map(|at| (at * 7 + at / 1000) as u8).collect();
    let received = thread::scope(|scope| {
        let sending = &sent;
        scope.spawn(move || out.write_all(sending).unwrap());
        into.set_read_timeout(Some(crate::wires::SECONDS)).unwrap();
        let mut received = vec![0; BYTES];
        into.read_exact(&mut received).unwrap();
        received
    });
    assert!(received == sent, "TCP delivered other bytes");
}

/// ICMP echo requests, each answered: what `ping` does.
fn icmp(alpha: &Host, count: u16) {
    let open =
        || socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_CLOEXEC, nix::sys::socket::SockProtocol::Icmp);
    let ping = alpha.enter(open).unwrap().unwrap();
    setsockopt(&ping, sockopt::ReceiveTimeout, &nix::sys::time::TimeVal::new(5, 0)).unwrap();
    let ping = std::os::fd::AsRawFd::as_raw_fd(&ping);
    for number in 0..count {
        let mut request = [8, 0, 0, 0, 0x12, 0x34, (number >> 8) as u8, number as u8];
        let sum: u32 = request.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        request[2..4].copy_from_slice(&sum.to_be_bytes());
        sendto(ping, &request, &SockaddrIn::new(10, 77, 0, 2, 0), MsgFlags::empty()).unwrap();
        let mut reply = [0; 128];
        // A call with a time-out ends for any signal of the process, even one that it ignores.
        let mut received = recv(ping, &mut reply, MsgFlags::empty());
        while received == Err(Errno::EINTR) {
            received = recv(ping, &mut reply, MsgFlags::empty());
        }
        let length = received.expect("an answer to the ping");
        assert_eq!(reply[20..length][..1], [0], "an echo reply");
        assert_eq!(reply[26..28], request[6..8], "to this very request");
    }
}

#[test]
fn tcp_and_icmp_keep_working_while_messages_flow() {
    let (alpha, beta) = (Host::new("alpha").unwrap(), Host::new("beta").unwrap());
    let options = VethOptions { addresses: Some(("10.77.0.1/24", "10.77.0.2/24")), ..VethOptions::default() };
    veth(&alpha, "am0", &beta, "am0", &options).unwrap();
    let over = AtomicBool::new(false);
    let (rounds, served) = thread::scope(|scope| {
        let messages = scope.spawn(|| {
            against(&alpha, &beta, None, || {
                let (_node, mut endpoint) = node("alpha", None);
                let mut seen = Seen::default();
                let to = connect(&mut endpoint, &mut seen);
                let mut rounds = 0;
                while !over.load(Relaxed) || rounds == 0 {
                    exchange(&mut endpoint, &mut seen, to, 1000, 200);
                    rounds += 1;
                }
                rounds
            })
        });
        // Let them find each other first.
        thread::sleep(Duration::from_millis(300));
        let ordinary = std::panic::catch_unwind(|| {
            tcp(&alpha, &beta);
            icmp(&alpha, 200);
        });
        over.store(true, Relaxed);
        let messages = messages.join().unwrap();
        ordinary.unwrap();
        messages
    });
    assert_eq!(served.requests, rounds * 1000);
}
