//! Frames of several chunks: whole, each once, in order, and all of them home again. Needs root.

use std::process::Command;

use crate::pair::{Cable, Pair, counter, eventually, flow};
use am_afxdp::{Attach, MultiBuffer, Rings, Xdp, XdpOptions};
use am_netns::VethOptions;
use am_ring::Frame;
use am_transport::{Transport, TransportExt};
use am_wire::bounce::RejectTemplate;
use am_wire::frame::{self, ETHERNET_HEADER, LinkAddresses, MIN_FRAME};
use am_wire::{Buffer, EtherType, Framing, Header, Kind};

const MTUS: [u32; 3] = [9000, 65000, 65535];

fn long(mtu: u32) -> (Cable, Pair) {
    with(mtu, &XdpOptions::new("am0"))
}

fn with(mtu: u32, options: &XdpOptions) -> (Cable, Pair) {
    let cable = Cable::new(&VethOptions { mtu, ..VethOptions::default() });
    let pair = cable.pair(options);
    (cable, pair)
}

/// A request with so many bytes of body, which depend on the number.
fn request(pair: &Pair, number: u32, body: usize) -> Option<Frame> {
    let (from, to) = (pair.near.caps().address, pair.far.caps().address);
    let mut frame = pair.near.caps().pool.take()?;
    let header = Header { kind: Kind::Request, flow: flow(), nonce: 0, handler: 1, words: 0, seq: 0 };
    let link = LinkAddresses { to, from, ethertype: EtherType::DEFAULT };
    let space = frame.space().unwrap();
    fill(frame::body(space, Framing::Bare, body).unwrap(), number);
    let length = frame::emit(space, Framing::Bare, &link, &header, body, None).unwrap();
    frame.set_len(length);
    Some(frame)
}

fn byte(number: u32, at: usize) -> u8 {
    (number as usize * 31 + at * 7 + (at >> 8) * 3) as u8
}

fn fill(body: &mut [u8], number: u32) {
    body.iter_mut().enumerate().for_each(|(at, place)| *place = byte(number, at));
    body[..4].copy_from_slice(&number.to_be_bytes());
}

/// Number and length, once every byte is as it was sent.
fn read(frame: &Frame) -> (u32, usize) {
    let body = frame::parse(frame.bytes(), EtherType::DEFAULT).expect("a request").payload;
    let number = u32::from_be_bytes(body[..4].try_into().unwrap());
    let wrong = (4..body.len()).find(|&at| body[at] != byte(number, at));
    assert_eq!(wrong, None, "of {} bytes of {number}", body.len());
    (number, body.len())
}

fn send(pair: &mut Pair, number: u32, body: usize) -> bool {
    let to = pair.far.caps().address;
    request(pair, number, body).is_some_and(|frame| pair.near.send(to, &frame))
}

fn receive(pair: &mut Pair) -> Vec<(u32, usize)> {
    let mut received = vec![];
    while pair.far.receive(64, &mut |frame| received.push(read(&frame))) > 0 {}
    pair.far.flush();
    received
}

/// A few at a time, so that none is lost.
fn each_arrives(pair: &mut Pair, bodies: &[usize]) {
    let all: Vec<(u32, usize)> = bodies.iter().enumerate().map(|(number, &body)| (number as u32, body)).collect();
    for few in all.chunks(8) {
        few.iter().for_each(|&(number, body)| assert!(send(pair, number, body), "{body}"));
        pair.near.flush();
        let mut received = vec![];
        eventually("all arrive", || {
            received.extend(receive(pair));
            pair.near.flush();
            received.len() >= few.len()
        });
        assert_eq!(received, few);
    }
}

/// Frames that are not in their pools.
fn out(pair: &Pair) -> [usize; 2] {
    [&pair.near, &pair.far].map(|end| end.caps().pool.layout().frames - end.caps().pool.available())
}

fn all_come_home(pair: &mut Pair) {
    eventually("all are home", || {
        receive(pair);
        pair.near.flush();
        out(pair) == [0, 0]
    });
}

/// Around each length at which one more chunk is needed, on either side.
fn lengths(mtu: u32) -> Vec<usize> {
    let most = mtu as usize;
    let (sent, landed) = ((0..18).map(|n| 3840 + n * 4096), (0..18).map(|n| 3840 + n * 3840));
    let steps = sent.chain(landed).flat_map(|frame| [frame - 1, frame, frame + 1]).map(|frame| frame - ETHERNET_HEADER);
    let few = [4, MIN_FRAME - ETHERNET_HEADER, 100, 1000, most - 1, most, 4, most];
    few.into_iter().chain(steps).filter(|&body| body <= most).collect()
}

#[test]
fn frames_of_every_length_arrive_whole() {
    for mtu in MTUS {
        for attach in [Attach::Generic, Attach::Native] {
            let (_cable, mut pair) = with(mtu, &XdpOptions { attach, ..XdpOptions::new("am0") });
            let mode = pair.near.mode();
            assert!(mode.multi_buffer && mode.notes.iter().all(|note| !note.starts_with("frames of at most")));
            assert_eq!(pair.near.caps().max_frame, mtu as usize + ETHERNET_HEADER);
            each_arrives(&mut pair, &lengths(mtu));
            all_come_home(&mut pair);
        }
    }
}

/// Several times around every ring, some kept and some shared meanwhile.
#[test]
fn every_frame_comes_home() {
    for mtu in MTUS {
        let (_cable, mut pair) = long(mtu);
        let blanks = counter(&pair.far, "rx_blanks");
        let (mut kept, mut sent, mut got) = (vec![], 0u32, 0u64);
        let most = pair.far.caps().pool.layout().frames / 3;
        while sent < 3000 {
            for _ in 0..7 {
                let body = 4 + (sent as usize).wrapping_mul(7919) % (mtu as usize - 4);
                sent += u32::from(send(&mut pair, sent, body));
            }
            pair.near.flush();
            got += pair.far.receive(64, &mut |frame| {
                let (number, _) = read(&frame);
                if number.is_multiple_of(3) {
                    kept.push(frame.share());
                }
                if number.is_multiple_of(5) {
                    kept.push(frame);
                }
            }) as u64;
            if kept.len() > most {
                kept.drain(..).for_each(|frame| _ = read(&frame));
            }
        }
        kept.clear();
        eventually("each is here or counted", || {
            got += receive(&mut pair).len() as u64;
            pair.near.flush();
            got + pair.lost() == u64::from(sent)
        });
        assert!(got > u64::from(sent) / 2, "{got} of {sent}");
        all_come_home(&mut pair);
        assert_eq!((counter(&pair.far, "rx_invalid"), counter(&pair.near, "tx_invalid")), (0, 0));
        assert_eq!(counter(&pair.far, "rx_blanks"), blanks, "as many landings wait as before");
    }
}

/// A retransmit queue holds a frame while the NIC has it, twice.
#[test]
fn a_frame_can_be_on_its_way_twice() {
    let (_cable, mut pair) = long(65000);
    let (to, held) = (pair.far.caps().address, request(&pair, 42, 60_000).unwrap());
    assert!(pair.near.send(to, &held), "room");
    assert!(pair.near.send(to, &held), "room");
    pair.near.flush();
    let mut received = vec![];
    eventually("both arrive", || {
        received.extend(receive(&mut pair));
        received == [(42, 60_000); 2]
    });
    assert_eq!(read(&held), (42, 60_000), "and it is what it was");
    drop(held);
    all_come_home(&mut pair);
}

/// Who holds all frames finds what arrived meanwhile once some are let go.
#[test]
fn what_finds_no_frame_waits() {
    let (_cable, mut pair) = long(9000);
    let mut held: Vec<Frame> = std::iter::from_fn(|| pair.far.caps().pool.take()).collect();
    for number in 0..20 {
        assert!(send(&mut pair, number, 5000));
    }
    pair.near.flush();
    for _ in 0..100 {
        assert_eq!(receive(&mut pair), []);
    }
    assert_eq!(counter(&pair.far, "rx_starved"), 1);
    held.truncate(held.len() - 3);
    let mut received = vec![];
    eventually("all arrive", || {
        received.extend(receive(&mut pair));
        received.len() == 20
    });
    assert!(received.iter().copied().eq((0..20).map(|number| (number, 5000))));
    drop(held);
    all_come_home(&mut pair);
}

/// Where nobody looks for long, rings run full, and nothing else happens.
#[test]
fn a_receiver_that_is_away_loses_frames_and_no_memory() {
    let (_cable, mut pair) = long(65000);
    for number in 0..400 {
        while !send(&mut pair, number, 65_000) {
            pair.near.flush();
        }
        pair.near.flush();
    }
    let mut received = vec![];
    eventually("each is here or counted", || {
        received.extend(receive(&mut pair));
        pair.near.flush();
        received.len() as u64 + pair.lost() == 400
    });
    assert!(pair.lost() > 0 && received.is_sorted(), "{received:?}");
    all_come_home(&mut pair);
    each_arrives(&mut pair, &[65_000; 40]);
}

fn ip(arguments: &[&str]) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    assert!(Command::new("ip").env("PATH", path).args(arguments).status().unwrap().success());
}

/// The network was changed under a running node: what is too long for its frames is no frame.
#[test]
fn what_is_longer_than_a_frame_is_counted() {
    let cable = Cable::new(&VethOptions { mtu: 9000, ..VethOptions::default() });
    let mut far = cable.open(1, &XdpOptions::new("am0")).unwrap();
    far.steer(flow(), true);
    for host in &cable.hosts {
        host.enter(|| ip(&["link", "set", "dev", "am0", "mtu", "20000"])).unwrap();
    }
    let near = cable.open(0, &XdpOptions::new("am0")).unwrap();
    let mut pair = Pair { near, far };
    for _ in 0..10 {
        assert!(send(&mut pair, 1, 15_000));
    }
    pair.near.flush();
    eventually("they are counted", || {
        assert_eq!(receive(&mut pair), []);
        counter(&pair.far, "rx_invalid") == 10
    });
    each_arrives(&mut pair, &[9000, 100, 4000]);
    all_come_home(&mut pair);
}

#[test]
fn closing_brings_home_what_is_under_way() {
    let (cable, mut pair) = long(65000);
    let pools = [&pair.near, &pair.far].map(|end| end.caps().pool.clone());
    cable.ends[0].set_down().unwrap();
    for number in 0..20 {
        send(&mut pair, number, 30_000);
    }
    pair.near.flush();
    assert!(counter(&pair.near, "link_errors") > 0 && out(&pair)[0] == 20);
    let kept = pools[1].take();
    drop(pair);
    drop(kept);
    assert_eq!(pools.each_ref().map(|pool| pool.available()), pools.each_ref().map(|pool| pool.layout().frames));
    cable.ends[0].set_up().unwrap();
    cable.pair(&XdpOptions::new("am0"));
}

/// The program of a full node returns what is in one piece; of what is in
/// several the kernel would send its own memory with the reject.
#[test]
fn long_requests_are_the_hosts_to_return() {
    for attach in [Attach::Generic, Attach::Native] {
        let (_cable, mut pair) = with(65000, &XdpOptions { attach, ..XdpOptions::new("am0") });
        let (to, from) = (pair.near.caps().address, pair.far.caps().address);
        let link = LinkAddresses { to, from, ethertype: EtherType::DEFAULT };
        let back = RejectTemplate::new(Framing::Bare, &link, flow(), 0);
        pair.far.control(am_transport::Command::RejectTemplate { flow: flow(), template: &back }).unwrap();
        pair.far.control(am_transport::Command::RxFull(true)).unwrap();
        for body in [4, 1000, 3000, 3400, 3600, 3800, 4000, 10_000, 60_000, 65_000] {
            let request = request(&pair, 7, body).unwrap();
            let reject = back.reject(request.bytes().first_chunk().unwrap(), EtherType::DEFAULT).unwrap();
            assert!(pair.near.send(from, &request), "room");
            pair.near.flush();
            let (mut returned, mut arrived) = (vec![], vec![]);
            eventually("it comes back, or arrives", || {
                pair.near.receive(64, &mut |frame| returned.push(frame.bytes().to_vec()));
                pair.far.receive(64, &mut |frame| arrived.push(read(&frame)));
                !returned.is_empty() || !arrived.is_empty()
            });
            if body < 3500 {
                assert_eq!((returned, arrived), (vec![reject.to_vec()], vec![]), "{attach:?} {body}");
            } else {
                assert_eq!((returned, arrived), (vec![], vec![(7, body)]), "{attach:?} {body}");
            }
        }
    }
}

/// As on a kernel that does not know them.
#[test]
fn without_multi_buffer_frames_are_shorter() {
    let (_cable, mut pair) = with(9000, &XdpOptions { multi_buffer: MultiBuffer::Never, ..XdpOptions::new("am0") });
    let mode = pair.near.mode();
    assert!(!mode.multi_buffer && mode.notes.iter().any(|note| note.contains("frames of at most 3840 bytes")));
    assert_eq!(pair.near.caps().max_frame, 3840);
    each_arrives(&mut pair, &[4, 1500, 3826]);
    assert!(request(&pair, 1, 3826).unwrap().room() == 3840, "no longer");
}

#[test]
fn rings_that_are_too_small_are_refused() {
    let cable = Cable::new(&VethOptions { mtu: 65000, ..VethOptions::default() });
    let rings = Rings { completion: 16, ..Rings::default() };
    let error = cable.open(0, &XdpOptions { rings, ..XdpOptions::new("am0") }).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("17 entries"), "{error}");
    let _works: Xdp = cable.open(0, &XdpOptions::new("am0")).unwrap();
}
