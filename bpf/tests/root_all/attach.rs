//! The programs on a real interface: what they do to its frames, that nothing
//! is left of them, and what stands in their way. Needs root.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{FromRawFd, OwnedFd};

use crate::cable::{Cable, count, eventually};
use am_bpf::{AttachError, AttachMode, Attachment, Raw, SocketError, Steer};
use am_netns::{Tap, VethOptions};
use am_wire::{Flow, Framing, Reason};

/// An AF_XDP socket that is bound to nothing: the program finds it, and what it
/// gives it is lost. The backend's tests have real ones.
fn xdp_socket() -> OwnedFd {
    // SAFETY: the descriptor is ours alone; the option is read while the call lasts, all four bytes of it.
    unsafe {
        let fd = libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        let socket = OwnedFd::from_raw_fd(fd);
        // Linux 7 takes no socket into the table that has no ring for what arrives.
        let entries = 64_u32;
        let set = libc::setsockopt(fd, libc::SOL_XDP, libc::XDP_RX_RING, (&raw const entries).cast(), 4);
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
        socket
    }
}

fn flow(id: u16) -> Flow {
    Flow::new(id).unwrap()
}

#[test]
fn every_frame_is_counted_once_under_what_became_of_it() {
    let cable = Cable::new(&VethOptions::default());
    expect_counts(&cable, cable.steer(), 3);
    // All but those that went to the socket.
    expect_counts(&cable, cable.short(), 0);
}

fn expect_counts(cable: &Cable, mut steer: Steer, redirected: u64) {
    let socket = xdp_socket();
    steer.set_socket(3, 0, &socket).unwrap();
    steer.set_socket(4, 7, &socket).unwrap();
    for (id, socket) in [(17, 3), (18, 4), (19, 5)] {
        steer.set_flow(flow(id), Some(socket));
    }
    let _attachment = cable.attach(&mut steer);
    let tap = Tap::new(&cable.far).unwrap();
    for framing in Framing::ALL {
        tap.send(&cable.request(framing, 17)).unwrap(); // to socket 3
        tap.send(&cable.request(framing, 18)).unwrap(); // whose socket is on queue 7
        tap.send(&cable.request(framing, 19)).unwrap(); // whose socket does not exist
        tap.send(&cable.request(framing, 20)).unwrap(); // no such flow
        tap.send(&cable.to_other_host(framing)).unwrap();
    }
    eventually("all frames are counted", || count(&steer, "xdp_pass_other_host") == 3);
    let counters = steer.counters().unwrap();
    for name in ["xdp_drop_wrong_queue", "xdp_drop_no_socket", "xdp_drop_unknown_flow"] {
        assert_eq!(count(&steer, name), 3, "{name}: {counters:?}");
    }
    assert_eq!((steer.wrong_queue().unwrap(), steer.dropped(Reason::NoFlow).unwrap()), (3, 3));
    assert_eq!(count(&steer, "xdp_redirected"), redirected);
    let mut all = 0;
    counters.each(&mut |_, count| all += count);
    assert_eq!(all, 12 + redirected);
}

/// Ours alone, in the share that was asked for: chance hits this wide once in 10^12 runs.
#[test]
fn what_is_to_be_lost_is_lost_and_counted() {
    const FRAMES: u64 = 2000;
    let cable = Cable::new(&VethOptions::default());
    let (mut steer, socket) = (cable.losing(250_000), xdp_socket());
    steer.set_socket(3, 0, &socket).unwrap();
    steer.set_flow(flow(17), Some(3));
    let _attachment = cable.attach(&mut steer);
    let tap = Tap::new(&cable.far).unwrap();
    for _ in 0..FRAMES {
        tap.send(&cable.request(Framing::Plain, 17)).unwrap();
        tap.send(&cable.to_other_host(Framing::Plain)).unwrap();
    }
    eventually("all frames are counted", || count(&steer, "xdp_pass_other_host") == FRAMES);
    let lost = count(&steer, "xdp_lost_on_purpose");
    assert_eq!(count(&steer, "xdp_redirected") + lost, FRAMES);
    assert!((360..640).contains(&lost), "{lost}");
}

#[test]
fn a_closed_socket_leaves_the_table() {
    let cable = Cable::new(&VethOptions::default());
    let (mut steer, socket) = (cable.steer(), xdp_socket());
    steer.set_socket(0, 0, &socket).unwrap();
    steer.set_flow(flow(17), Some(0));
    let _attachment = cable.attach(&mut steer);
    let tap = Tap::new(&cable.far).unwrap();
    tap.send(&cable.request(Framing::Bare, 17)).unwrap();
    eventually("it went to the socket", || count(&steer, "xdp_redirected") == 1);
    drop(socket);
    // A child that another test has just started holds it too, until it runs its own program.
    eventually("the socket is gone", || {
        tap.send(&cable.request(Framing::Bare, 17)).unwrap();
        count(&steer, "xdp_drop_no_socket") > 0
    });
}

/// The next datagram. SIGCHLD, when a tool of another test ends, may end a call that has a time-out.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> (usize, SocketAddr) {
    loop {
        match socket.recv_from(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            received => return received.unwrap(),
        }
    }
}

#[test]
fn ordinary_traffic_goes_on() {
    let cable =
        Cable::new(&VethOptions { addresses: Some(("10.77.0.1/24", "10.77.0.2/24")), ..VethOptions::default() });
    let mut steer = cable.steer();
    let _attachment = cable.attach(&mut steer);
    let near = cable.near_host.enter(|| UdpSocket::bind("10.77.0.1:0").unwrap()).unwrap();
    let far = cable.far_host.enter(|| UdpSocket::bind("10.77.0.2:0").unwrap()).unwrap();
    near.set_read_timeout(Some(crate::cable::PATIENCE)).unwrap();
    far.set_read_timeout(Some(crate::cable::PATIENCE)).unwrap();
    let mut buffer = [0; 2000];
    for length in [1, 1472] {
        far.send_to(&buffer[..length], near.local_addr().unwrap()).unwrap();
        let (_, from) = receive(&near, &mut buffer);
        near.send_to(&buffer[..length], from).unwrap();
        assert_eq!(receive(&far, &mut buffer).0, length);
    }
    assert!(count(&steer, "xdp_pass_foreign") >= 3, "ARP and two datagrams");
}

#[test]
fn raw_takes_its_ethertype_and_nothing_else() {
    let cable = Cable::new(&VethOptions::default());
    let mut raw = Raw::load(0x88b7).unwrap_or_else(|error| panic!("{error}"));
    let socket = xdp_socket();
    raw.set_socket(0, &socket).unwrap();
    let _attachment = cable.near_host.enter(|| raw.attach("am0", AttachMode::Native).unwrap()).unwrap();
    let (from, to) = (Tap::new(&cable.far).unwrap(), Tap::new(&cable.near).unwrap());
    let (mut taken, mut passed) = (cable.request(Framing::Bare, 17), cable.request(Framing::Bare, 17));
    taken[12..14].copy_from_slice(&[0x88, 0xb7]);
    passed[12..14].copy_from_slice(&[0x88, 0xb8]);
    from.send(&taken).unwrap();
    from.send(&passed).unwrap();
    let mut buffer = [0; 2000];
    assert_eq!(to.receive(&mut buffer, crate::cable::PATIENCE).unwrap().as_deref(), Some(&passed[..]));
}

#[test]
fn an_attachment_ends_with_its_value() {
    let cable = Cable::new(&VethOptions::default());
    let mut steer = cable.steer();
    for mode in [AttachMode::Native, AttachMode::Generic] {
        let attachment = cable.near_host.enter(|| steer.attach("am0", mode).unwrap()).unwrap();
        assert_eq!((attachment.interface(), attachment.mode()), ("am0", mode));
        assert!(cable.near.has_xdp().unwrap());
        drop(attachment);
        // A child that another test has just started holds it too, until it runs its own program.
        eventually("it is detached", || !cable.near.has_xdp().unwrap());
    }
    // The program outlives its loader on the interface, as long as it is attached.
    let attachment = cable.attach(&mut steer);
    drop(steer);
    assert!(cable.near.has_xdp().unwrap());
    drop(attachment);
    eventually("it is detached again", || !cable.near.has_xdp().unwrap());
}

/// What attaching says, for a cable that something was done to.
fn refusal(cable: &Cable, interface: &str, mode: AttachMode) -> AttachError {
    let mut steer = cable.steer();
    let attached: Result<Attachment, _> = cable.near_host.enter(|| steer.attach(interface, mode)).unwrap();
    attached.expect_err("it attached")
}

#[test]
fn an_interface_that_is_not_there() {
    let cable = Cable::new(&VethOptions::default());
    let error = refusal(&cable, "nosuch0", AttachMode::Native);
    assert_eq!(error.to_string(), "no interface nosuch0 here: `ip link` lists those there are");
}

#[test]
fn an_interface_that_another_program_has() {
    let cable = Cable::new(&VethOptions::default());
    let mut first = cable.steer();
    let attachment = cable.attach(&mut first);
    for mode in [AttachMode::Native, AttachMode::Generic] {
        assert!(matches!(refusal(&cable, "am0", mode), AttachError::Occupied { .. }));
    }
    drop(attachment);
    drop(cable.attach(&mut first));
}

#[test]
fn a_program_left_by_another_tool_can_be_removed_as_we_say() {
    let cable = Cable::new(&VethOptions::default());
    let object = concat!(env!("OUT_DIR"), "/raw.o");
    let set = |what: &[&str]| cable.ip(&[&["link", "set", "dev", "am0"], what].concat());
    for word in ["xdp", "xdpgeneric"] {
        set(&[word, "object", object, "program", "raw_linear"]);
        let error = refusal(&cable, "am0", AttachMode::Native);
        assert!(matches!(error, AttachError::Occupied { .. }));
        assert!(error.to_string().contains(&format!("`ip link set dev am0 {word} off`")), "{error}");
        set(&[word, "off"]);
        drop(cable.attach(&mut cable.steer()));
    }
}

#[test]
fn a_driver_without_xdp_has_the_generic_mode() {
    let cable = Cable::new(&VethOptions::default());
    assert!(matches!(refusal(&cable, "lo", AttachMode::Native), AttachError::NoNativeMode { .. }));
    let mut steer = cable.steer();
    drop(cable.near_host.enter(|| steer.attach("lo", AttachMode::Generic).unwrap()).unwrap());
}

#[test]
fn a_veth_with_too_few_queues() {
    let cable = Cable::new(&VethOptions::default());
    let (one, two) = (["numrxqueues", "1", "numtxqueues", "1"], ["numrxqueues", "2", "numtxqueues", "2"]);
    let pair = [&["link", "add", "name", "q0"][..], &one, &["type", "veth", "peer", "name", "q1"], &two].concat();
    cable.ip(&pair);
    let error = refusal(&cable, "q0", AttachMode::Native);
    assert!(matches!(&error, AttachError::TooFewQueues { .. }));
    assert!(error.to_string().contains("peer tx queues"), "and the driver's own words: {error}");
    let two = Cable::new(&VethOptions { queues: 2, ..VethOptions::default() });
    drop(two.attach(&mut two.steer()));
}

#[test]
fn a_jumbo_mtu_is_no_obstacle() {
    let cable = Cable::new(&VethOptions { mtu: 9000, ..VethOptions::default() });
    drop(cable.attach(&mut cable.steer()));
}

#[test]
fn sockets_that_are_none() {
    let cable = Cable::new(&VethOptions::default());
    let steer = cable.steer();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(matches!(steer.set_socket(0, 0, &udp), Err(SocketError::NotXdp)));
    let error = steer.set_socket(255, 0, &xdp_socket()).unwrap_err();
    assert_eq!(error.to_string(), "there is no socket 255: a program has 255 of them");
    steer.set_socket(Steer::LAST_SOCKET, 0, &xdp_socket()).unwrap();
    let mut raw = Raw::load(0x88b5).unwrap();
    assert!(matches!(raw.set_socket(64, &xdp_socket()), Err(SocketError::NoSuchIndex { index: 64, count: 64 })));
}
