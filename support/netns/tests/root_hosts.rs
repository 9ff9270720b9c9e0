//! Hosts, cables and switches, for real. Needs root.

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use am_netns::{Bridge, BridgeOptions, Host, HostError, Tap, VethOptions, veth};

const PATIENCE: Duration = Duration::from_secs(10);

/// A host, or why there can be none.
fn host(name: &str) -> Host {
    Host::new(name).unwrap_or_else(|error| panic!("{error}"))
}

fn socket(host: &Host, address: &str) -> UdpSocket {
    let socket = host.enter(|| UdpSocket::bind(address).unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// The length of the next datagram and its sender. SIGCHLD, when a tool of another test ends, may end a call that has a
/// time-out.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> (usize, SocketAddr) {
    loop {
        match socket.recv_from(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            received => return received.unwrap(),
        }
    }
}

/// There and back between two sockets.
fn ping(a: &UdpSocket, b: &UdpSocket) {
    let mut buffer = [0; 16];
    a.send_to(b"ping", b.local_addr().unwrap()).unwrap();
    let (n, from) = receive(b, &mut buffer);
    assert_eq!((&buffer[..n], from), (&b"ping"[..], a.local_addr().unwrap()));
    b.send_to(b"pong", from).unwrap();
    assert_eq!(receive(a, &mut buffer).0, 4);
}

fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !check() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_datagram_crosses_a_cable() {
    let (alpha, beta) = (host("alpha"), host("beta"));
    for (name, ips) in [("v4", ("10.77.0.1/24", "10.77.0.2/24")), ("v6", ("fd77::1/64", "fd77::2/64"))] {
        let options = VethOptions { addresses: Some(ips), ..VethOptions::default() };
        veth(&alpha, name, &beta, name, &options).unwrap();
    }
    ping(&socket(&alpha, "10.77.0.1:0"), &socket(&beta, "10.77.0.2:0"));
    ping(&socket(&alpha, "[fd77::1]:0"), &socket(&beta, "[fd77::2]:0"));
}

#[test]
fn a_cable_is_as_asked() {
    let (alpha, beta) = (host("alpha"), host("beta"));
    let options = VethOptions { mtu: 3400, queues: 2, gro: true, addresses: None };
    let (a, mut b) = veth(&alpha, "am0", &beta, "am1", &options).unwrap();
    assert_eq!((a.mtu().unwrap(), b.mtu().unwrap()), (3400, 3400));
    assert_ne!(a.address(), b.address());
    assert!(!a.has_xdp().unwrap());
    let features = alpha.enter(|| Command::new("/usr/sbin/ethtool").args(["-k", "am0"]).output().unwrap()).unwrap();
    assert!(String::from_utf8_lossy(&features.stdout).contains("generic-receive-offload: on"));

    b.set_address([2, 0, 0, 0, 0, 9]).unwrap();
    assert_eq!(beta.interface("am1").unwrap().address(), [2, 0, 0, 0, 0, 9]);
    b.set_down().unwrap();
    b.set_up().unwrap();
    a.wait_for_carrier().unwrap();
}

#[test]
fn a_datagram_crosses_a_switch_which_learns() {
    let hosts = ["alpha", "beta", "gamma"].map(host);
    let switch = Bridge::new(&hosts.each_ref(), "am0", &BridgeOptions::default()).unwrap();
    for (number, end) in switch.ends().iter().enumerate() {
        end.add_ip(&format!("10.77.0.{}/24", number + 1)).unwrap();
    }
    assert_eq!(switch.learned().unwrap(), []);
    ping(&socket(&hosts[0], "10.77.0.1:0"), &socket(&hosts[1], "10.77.0.2:0"));

    let mut learned: Vec<_> = switch.learned().unwrap().into_iter().map(|e| (e.port, e.address)).collect();
    learned.sort();
    let ends = switch.ends();
    assert_eq!(learned, [("p0".to_owned(), ends[0].address()), ("p1".to_owned(), ends[1].address())]);
}

#[test]
fn a_switch_that_does_not_learn_knows_nobody() {
    let hosts = ["alpha", "beta"].map(host);
    let options = BridgeOptions { learning: false, ..BridgeOptions::default() };
    let switch = Bridge::new(&hosts.each_ref(), "am0", &options).unwrap();
    switch.ends()[0].add_ip("10.77.0.1/24").unwrap();
    switch.ends()[1].add_ip("10.77.0.2/24").unwrap();
    ping(&socket(&hosts[0], "10.77.0.1:0"), &socket(&hosts[1], "10.77.0.2:0"));
    assert_eq!(switch.learned().unwrap(), []);
}

/// On a busy machine it takes longer, never shorter.
#[test]
fn a_limited_switch_sends_no_faster() {
    const FRAMES: u32 = 100;
    let hosts = ["alpha", "beta"].map(host);
    let switch = Bridge::new(&hosts.each_ref(), "am0", &BridgeOptions::default()).unwrap();
    switch.limit_rate(10_000_000).unwrap();
    switch.ends()[0].add_ip("10.77.0.1/24").unwrap();
    switch.ends()[1].add_ip("10.77.0.2/24").unwrap();
    let (from, to) = (socket(&hosts[0], "10.77.0.1:0"), socket(&hosts[1], "10.77.0.2:0"));
    ping(&from, &to);

    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..FRAMES {
                from.send_to(&[0; 1472], to.local_addr().unwrap()).unwrap();
            }
        });
        for _ in 0..FRAMES {
            assert_eq!(receive(&to, &mut [0; 2000]).0, 1472, "the switch's buffer holds them all");
        }
    });
    // Each takes 1538 bytes on the wire; 8 KiB may go at once.
    let least = Duration::from_micros(u64::from(FRAMES * 1538 - 8192) * 8 / 10);
    assert!(start.elapsed() >= least, "{:?} of at least {least:?}", start.elapsed());
}

#[test]
fn a_tap_sends_and_sees_whole_frames() {
    let (alpha, beta) = (host("alpha"), host("beta"));
    let (a, b) = veth(&alpha, "am0", &beta, "am0", &VethOptions::default()).unwrap();
    let (from, to) = (Tap::new(&a).unwrap(), Tap::new(&b).unwrap());
    let mut frame = [0x5a; 1514];
    frame[..6].copy_from_slice(&b.address());
    from.send(&frame).unwrap();
    let mut buffer = [0; 2000];
    assert_eq!(to.receive(&mut buffer, PATIENCE).unwrap(), Some(&mut frame[..]));
    assert_eq!(to.receive(&mut buffer, Duration::ZERO).unwrap(), None, "nothing else moves on the cable");
    assert!(from.send(&[0; 1515]).is_err(), "more than the MTU");
}

#[test]
fn mistakes_have_names() {
    let host = host("alpha");
    let error = host.interface("nosuch0").unwrap_err();
    assert_eq!(error.to_string(), "host alpha has no interface nosuch0");

    veth(&host, "am0", &host, "am1", &VethOptions::default()).unwrap();
    let error = veth(&host, "am0", &host, "am2", &VethOptions::default()).unwrap_err();
    assert!(matches!(&error, HostError::Command { stderr, .. } if stderr.contains("exists")), "{error}");
    assert!(matches!(Host::at("ended", &namespace_of(ended_process())), Err(HostError::System { .. })));
}

#[test]
#[should_panic(expected = "out of the closure")]
fn a_panic_comes_out() {
    host("alpha").enter(|| panic!("out of the closure")).unwrap();
}

/// A number that was a process's and is one's no more.
fn ended_process() -> u32 {
    let mut child = Command::new("/bin/true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

/// Where the namespace of a process is.
fn namespace_of(process: impl std::fmt::Display) -> String {
    format!("/proc/{process}/ns/net")
}

/// The process of `nothing_is_left_after_kill_9`: joins the host it was started
/// on with a new one of its own, and waits to be killed.
#[test]
#[ignore = "started by nothing_is_left_after_kill_9"]
fn child() {
    let (outside, own) = (Host::at("here", &namespace_of("thread-self")).unwrap(), host("own"));
    veth(&outside, "am0", &own, "am0", &VethOptions::default()).unwrap();
    println!("\nready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn start_child(host: &Host) -> Child {
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut child = host.enter(start).unwrap();
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "ready"));
    child
}

#[test]
fn nothing_is_left_after_kill_9() {
    let outside = host("outside");
    let mut child = start_child(&outside);

    // The child is where it was started, and can be found there.
    let found = Host::at("found", &namespace_of(child.id())).unwrap();
    assert_eq!(found.interface("am0").unwrap().index(), outside.interface("am0").unwrap().index());

    // A cable ends with the host at its other end: ours going proves that the
    // namespace, which only the child's memory knew, has gone.
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the cable to the killed process's host is gone", || {
        matches!(outside.interface("am0"), Err(HostError::NoSuchInterface { .. }))
    });
}
