//! Everybody else's frames, senseless ones, and what happens to the link. Needs root.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use crate::pair::{Cable, Pair, counter, eventually, frames_out, message, number, plain};
use am_afxdp::{BusyPoll, XdpOptions};
use am_netns::VethOptions;
use am_transport::{Command, Transport};
use am_wire::Buffer;

const IPS: Option<(&str, &str)> = Some(("10.77.0.1/24", "10.77.0.2/24"));

/// Messages flow until `others` are done; each arrives, or is counted where it
/// was lost. Returns how many there were.
fn messages_meanwhile<T: Send>(pair: &mut Pair, others: impl FnOnce() -> T + Send) -> (u64, T) {
    thread::scope(|scope| {
        let others = scope.spawn(others);
        let (mut sent, mut received) = (0, 0);
        // At least once, however soon the others are done.
        while sent == 0 || !others.is_finished() {
            sent += pair.send((0..).take(16)) as u64;
            received += pair.receive().len() as u64;
        }
        eventually("each message has arrived or is counted", || {
            received += pair.receive().len() as u64;
            pair.near.flush();
            received + pair.lost() == sent
        });
        assert!(received > sent / 2, "only {received} of {sent} arrived");
        (sent, others.join().unwrap())
    })
}

#[test]
fn tcp_flows_meanwhile() {
    let cable = Cable::new(&VethOptions { addresses: IPS, ..VethOptions::default() });
    let mut pair = cable.pair(&XdpOptions::new("am0"));
    let listener = cable.hosts[1].enter(|| TcpListener::bind("10.77.0.2:7").unwrap()).unwrap();
    let near = &cable.hosts[0];
    let (messages, bytes) = messages_meanwhile(&mut pair, || {
        let writer = thread::spawn(move || listener.accept().unwrap().0.write_all(&vec![42; 4 << 20]).unwrap());
        let mut stream = near.enter(|| TcpStream::connect("10.77.0.2:7").unwrap()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        writer.join().unwrap();
        bytes
    });
    assert_eq!(bytes, vec![42; 4 << 20]);
    assert!(messages > 0 && counter(&pair.near, "xdp_pass_foreign") > 0);
}

#[test]
fn udp_and_icmp_flow_meanwhile() {
    let cable = Cable::new(&VethOptions { addresses: IPS, ..VethOptions::default() });
    let mut pair = cable.pair(&XdpOptions::new("am0"));
    let bind =
        |end: usize, address: &'static str| cable.hosts[end].enter(|| UdpSocket::bind(address).unwrap()).unwrap();
    let (near, far) = (bind(0, "10.77.0.1:0"), bind(1, "10.77.0.2:7"));
    let ports = [&near, &far].map(|port| port.set_read_timeout(Some(Duration::from_millis(200))));
    assert!(ports.iter().all(Result::is_ok));
    let (messages, ()) = messages_meanwhile(&mut pair, || {
        for round in 0..200u8 {
            again_and_again(|| echo(&near, &far, &[round; 1400]));
        }
        // Nobody listens there: the far host says so by ICMP.
        near.connect("10.77.0.2:9").unwrap();
        again_and_again(|| {
            let error = near.send(b"anybody?").and_then(|_| near.recv(&mut [0; 1])).unwrap_err();
            (error.kind() == ErrorKind::ConnectionRefused).then_some(())
        });
    });
    assert!(messages > 0);
}

/// There and back; `None` where a datagram was lost, which it may be.
fn echo(near: &UdpSocket, far: &UdpSocket, bytes: &[u8]) -> Option<()> {
    let mut buffer = [0; 1500];
    near.send_to(bytes, "10.77.0.2:7").unwrap();
    let (length, from) = far.recv_from(&mut buffer).ok()?;
    far.send_to(&buffer[..length], from).unwrap();
    let length = near.recv(&mut buffer).ok()?;
    (&buffer[..length] == bytes).then_some(())
}

fn again_and_again(mut attempt: impl FnMut() -> Option<()>) {
    eventually("a datagram is not always lost", || attempt().is_some());
}

#[test]
fn garbage_is_counted_and_loses_nothing_else() {
    let (_cable, mut pair) = plain();
    let (mut sent, mut garbage, mut received) = (0, 0, Vec::new());
    while garbage < 30_000 {
        garbage += send_garbage(&mut pair, garbage);
        sent += pair.send((sent..).take(4)) as u32;
        received.extend(pair.receive());
    }
    let dropped = |pair: &Pair| {
        let mut sum = 0;
        pair.far.counters(&mut |name, value| sum += if name.starts_with("xdp_drop_") { value } else { 0 });
        sum
    };
    eventually("everything has arrived or is counted", || {
        received.extend(pair.receive());
        pair.near.flush();
        received.len() as u64 + dropped(&pair) + pair.lost() == u64::from(sent) + garbage
    });
    assert!(received.is_sorted_by(|a, b| a < b), "each once, in order, and nothing else");
    assert!(received.len() as u32 > sent / 2 && dropped(&pair) > garbage / 2, "most arrive");
    assert_eq!(frames_out(&pair.far, &XdpOptions::new("am0")), 0);
}

/// Frames of our EtherType with a senseless header; returns how many.
fn send_garbage(pair: &mut Pair, seed: u64) -> u64 {
    let to = pair.far.caps().address;
    let mut count = 0;
    for at in 0..16 {
        let Some(mut frame) = message(&pair.near, to, 0) else { break };
        let space = frame.space().unwrap();
        // Group bit, then a version that does not exist.
        let noise = (seed + at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        space[6] = if at % 2 == 0 { space[6] | 1 } else { 0x82 };
        space[7..12].copy_from_slice(&noise.to_be_bytes()[..5]);
        if !pair.near.send(to, &frame) {
            break;
        }
        count += 1;
    }
    pair.near.flush();
    count
}

/// Everything that arrives is kept: the NIC runs out of blanks, frames are lost
/// and counted, and it all goes on when the frames come back.
#[test]
fn keeping_all_frames_starves_the_fill_ring() {
    let cable = Cable::new(&VethOptions::default());
    let mut options = XdpOptions::new("am0");
    (options.frames, options.rings.fill) = (256, 128);
    let mut pair = cable.pair(&options);
    let (mut kept, mut sent) = (Vec::new(), 0);
    while kept.len() < 256 || pair.lost() == 0 {
        sent += pair.send((sent..).take(8)) as u32;
        pair.far.receive(64, &mut |frame| kept.push(frame));
        assert!(sent < 1_000_000, "{} frames are kept", kept.len());
    }
    assert!(kept.is_sorted_by_key(number) && kept.len() == 256);
    assert_eq!(counter(&pair.far, "rx_starved"), 1);
    assert!(counter(&pair.far, "xsk_rx_fill_ring_empty_descs") > 0);
    kept.clear();
    pair.receive();
    pair.assert_alive(1000);
    eventually("all are home", || {
        pair.receive();
        frames_out(&pair.far, &options) == 0
    });
}

#[test]
fn not_receiving_fills_the_rx_ring() {
    let cable = Cable::new(&VethOptions::default());
    let mut options = XdpOptions::new("am0");
    options.rings.fill = 4096; // blanks enough: it is the rx ring that is full
    let mut pair = cable.pair(&options);
    pair.far.control(Command::RxCredit(4096)).unwrap();
    pair.receive();
    let mut sent = 0;
    while sent < 3000 {
        sent += pair.send((sent..3000).take(64)) as u32;
    }
    eventually("the kernel counts what found no room", || {
        pair.near.flush();
        pair.lost() == 3000 - 2048
    });
    assert!(counter(&pair.far, "xsk_rx_ring_full") > 0);
    let received = pair.receive();
    assert!(received.len() == 2048 && received.is_sorted_by(|a, b| a < b));
    pair.assert_alive(5000);
}

#[test]
fn traffic_goes_on_after_the_interface_was_down() {
    let (cable, mut pair) = plain();
    let options = XdpOptions::new("am0");
    pair.assert_alive(1);
    for _ in 0..3 {
        cable.ends[0].set_down().unwrap();
        let before = counter(&pair.near, "link_errors");
        while pair.send(0..32) > 0 {}
        pair.receive();
        assert!(counter(&pair.near, "link_errors") > before);
        assert!(counter(&pair.near, "tx_full") > 0, "the ring holds what it can");
        cable.ends[0].set_up().unwrap();
        cable.ends[0].wait_for_carrier().unwrap();
        pair.assert_alive(2);
    }
    eventually("all are home", || {
        pair.receive();
        pair.near.flush();
        (frames_out(&pair.near, &options), frames_out(&pair.far, &options)) == (0, 0)
    });
}

/// Its other end is down: what is sent is lost, and nothing else happens.
#[test]
fn the_other_end_goes_down() {
    let (cable, mut pair) = plain();
    cable.ends[1].set_down().unwrap();
    for _ in 0..10 {
        pair.send(0..32);
    }
    cable.ends[1].set_up().unwrap();
    cable.ends[1].wait_for_carrier().unwrap();
    pair.assert_alive(1);
    pair.near.flush();
    assert_eq!(frames_out(&pair.near, &XdpOptions::new("am0")), 0);
}

#[test]
fn gone_for_good_is_counted_and_closes_well() {
    let (cable, mut pair) = plain();
    pair.assert_alive(1);
    cable.ip(0, &["link", "delete", "dev", "am0"]);
    pair.send(0..32);
    assert!(pair.receive().is_empty());
    assert!(counter(&pair.near, "link_errors") > 0);
    let pool = pair.near.caps().pool.clone();
    drop(pair);
    assert_eq!(pool.available(), XdpOptions::new("am0").frames as usize);
}

#[test]
fn busy_polling_carries_frames_too() {
    let cable = Cable::new(&VethOptions::default());
    let mut options = XdpOptions::new("am0");
    options.busy_poll = Some(BusyPoll::default());
    let mut pair = cable.pair(&options);
    let mode = pair.near.mode();
    assert!(mode.busy_poll);
    assert!(mode.notes.iter().any(|note| note.contains("napi_defer_hard_irqs")), "/sys is another's: {:?}", mode.notes);
    for number in 0..100 {
        pair.assert_alive(number);
    }
    assert!(counter(&pair.far, "rx_wakeups") > 0);
    thread::sleep(Duration::from_millis(1));
}
