//! The bare peer over a veth pair: nothing is lost in its hands, nor mixed up. Needs root.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use am_afxdp::raw::{BATCH, Raw};
use am_afxdp::{Attach, XdpOptions};
use am_netns::{Host, VethOptions, veth};
use am_transport::{Transport, TransportExt};
use am_wire::frame::{self, ETHERNET_HEADER, LinkAddresses, MIN_FRAME};
use am_wire::{Address, Buffer, EtherType, Framing, Header, Kind};

use crate::pair::flow;

const LONG: Duration = Duration::from_secs(20);

/// Two ends of a cable, both of this thread.
struct Cable {
    ends: [Raw; 2],
    addresses: [Address; 2],
    _hosts: [Host; 2],
}

impl Cable {
    fn new() -> Cable {
        Cable::with(Attach::default())
    }

    fn with(attach: Attach) -> Cable {
        let hosts = ["alpha", "beta"].map(|name| Host::new(name).expect("root"));
        let (a, b) = veth(&hosts[0], "am0", &hosts[1], "am0", &VethOptions::default()).unwrap();
        let open = |host: &Host| host.enter(|| Raw::open("am0", attach).unwrap()).unwrap();
        let addresses = [Address(a.address()), Address(b.address())];
        Cable { ends: [open(&hosts[0]), open(&hosts[1])], addresses, _hosts: hosts }
    }

    /// A frame from one end to the other, filled with `content`.
    fn frame(&self, from: usize, content: u8, length: usize) -> Vec<u8> {
        let mut frame = vec![content; length];
        frame[..6].copy_from_slice(&self.addresses[1 - from].0);
        frame[6..12].copy_from_slice(&self.addresses[from].0);
        frame[12..ETHERNET_HEADER].copy_from_slice(&EtherType::DEFAULT.hidden().to_be_bytes());
        frame
    }

    /// Wait until so many have come to this end, all the same as `expected`.
    fn expect(&mut self, end: usize, mut count: usize, expected: &[u8]) {
        let begin = Instant::now();
        while count > 0 {
            count -= self.ends[end]
                .receive(BATCH, &mut |frame, _| {
                    assert_eq!(frame, expected);
                    false
                })
                .unwrap();
            assert!(begin.elapsed() < LONG, "{count} are missing");
        }
    }
}

/// Many times more frames than there are chunks, each end's in turn.
#[test]
fn every_frame_arrives_as_it_was_written() {
    let mut cable = Cable::new();
    for (round, length) in [MIN_FRAME, 100, 1514].into_iter().cycle().take(30).enumerate() {
        let (from, content) = (round % 2, round as u8);
        let frame = cable.frame(from, content, length);
        cable.ends[from].write(&frame).unwrap();
        for _ in 0..10 {
            assert_eq!(cable.ends[from].send(BATCH).unwrap(), BATCH);
            cable.expect(1 - from, BATCH, &frame);
        }
    }
}

/// Many times more than there are chunks: none is written while the kernel has it.
#[test]
fn each_frame_arrives_with_what_was_written_into_it() {
    let mut cable = Cable::new();
    let frame = cable.frame(0, 0, 100);
    cable.ends[0].write(&frame).unwrap();
    let (mut written, mut seen) = (0u64, 0u64);
    for _ in 0..200 {
        let mut number = |begin: usize, frame: &mut [u8]| {
            assert_eq!((begin, frame.len()), (0, 100));
            frame[ETHERNET_HEADER..][..8].copy_from_slice(&written.to_be_bytes());
            written += 1;
        };
        assert_eq!(cable.ends[0].send_each(BATCH, &mut number).unwrap(), BATCH);
        let begin = Instant::now();
        while seen < written {
            cable.ends[1]
                .receive(BATCH, &mut |frame, _| {
                    assert_eq!(frame[ETHERNET_HEADER..][..8], seen.to_be_bytes());
                    seen += 1;
                    false
                })
                .unwrap();
            assert!(begin.elapsed() < LONG, "{seen} of {written}");
        }
    }
}

#[test]
fn echoes_come_back_and_their_chunks_go_home() {
    let mut cable = Cable::new();
    let frame = cable.frame(0, 7, 200);
    let mut turned = frame.clone();
    let (to, from) = turned[..12].split_at_mut(6);
    to.swap_with_slice(from);
    cable.ends[0].write(&frame).unwrap();
    for _ in 0..500 {
        assert_eq!(cable.ends[0].send(16).unwrap(), 16);
        let (mut echoed, begin) = (0, Instant::now());
        while echoed < 16 {
            echoed += cable.ends[1]
                .receive(BATCH, &mut |frame, _| {
                    let (to, from) = frame[..12].split_at_mut(6);
                    to.swap_with_slice(from);
                    true
                })
                .unwrap();
            assert!(begin.elapsed() < LONG);
        }
        cable.expect(0, 16, &turned);
    }
}

#[test]
fn notes_do_not_disturb_the_written_frame() {
    let mut cable = Cable::new();
    let (frame, note) = (cable.frame(0, 1, 1514), cable.frame(0, 2, MIN_FRAME));
    cable.ends[0].write(&frame).unwrap();
    for _ in 0..100 {
        assert!(cable.ends[0].send_control(&note).unwrap());
        cable.expect(1, 1, &note);
        assert_eq!(cable.ends[0].send(1).unwrap(), 1);
        cable.expect(1, 1, &frame);
    }
}

#[test]
fn the_program_runs_where_it_was_asked_to() {
    for (attach, name) in [(Attach::Native, "native"), (Attach::Generic, "generic")] {
        let mut cable = Cable::with(attach);
        assert_eq!(cable.ends[1].mode().attach.name(), name);
        let frame = cable.frame(0, 3, 100);
        cable.ends[0].write(&frame).unwrap();
        assert_eq!(cable.ends[0].send(1).unwrap(), 1);
        cable.expect(1, 1, &frame);
    }
}

/// Whole frames of several chunks, as the transport sees them: those that are sent, and those that come back.
#[test]
fn frames_of_several_chunks_are_whole() {
    for (mtu, lengths) in [(9000, [100, 3841, 9014]), (65000, [3840, 30_000, 65_014])] {
        let hosts = ["alpha", "beta"].map(|name| Host::new(name).expect("root"));
        let options = VethOptions { mtu, ..VethOptions::default() };
        let (a, b) = veth(&hosts[0], "am0", &hosts[1], "am0", &options).unwrap();
        let mut raw = hosts[0].enter(|| Raw::open("am0", Attach::default()).unwrap()).unwrap();
        nix::sched::setns(&hosts[1], nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        let mut whole = am_afxdp::open(&XdpOptions::new("am0")).unwrap();
        whole.steer(flow(), true);
        assert_eq!((raw.max_frame(), raw.mode().multi_buffer), (mtu as usize + ETHERNET_HEADER, true));
        for (round, length) in lengths.into_iter().cycle().take(12).enumerate() {
            let mut frame: Vec<u8> = (0..length).map(|at| (at * 7 + at / 251 + round) as u8).collect();
            let [to, from] = [&b, &a].map(|end| Address(end.address()));
            let link = LinkAddresses { to, from, ethertype: EtherType::DEFAULT };
            let header = Header { kind: Kind::Request, flow: flow(), nonce: 0, handler: 1, words: 0, seq: 0 };
            let body = length - ETHERNET_HEADER;
            assert_eq!(frame::emit(&mut frame, Framing::Bare, &link, &header, body, None).unwrap(), length);
            raw.write(&frame).unwrap();
            assert_eq!(raw.send(5).unwrap(), 5);
            receive_whole(&mut whole, &frame, &mut || {});
            // And there and back.
            let there = [&from.0, &frame[6..]].concat();
            for _ in 0..5 {
                let there = whole.caps().pool.copy(&there).unwrap();
                assert!(whole.send(from, &there), "room");
            }
            whole.flush();
            receive_whole(&mut whole, &frame, &mut || {
                let turn = |piece: &mut [u8], _| {
                    if piece.starts_with(&from.0) {
                        piece[..6].copy_from_slice(&to.0);
                    }
                    true
                };
                raw.receive(BATCH, &mut { turn }).unwrap();
            });
        }
    }
}

/// Five frames that are all so.
fn receive_whole(whole: &mut am_afxdp::Xdp, expected: &[u8], between: &mut dyn FnMut()) {
    let (mut count, begin) = (0, Instant::now());
    while count < 5 {
        between();
        count += whole.receive(BATCH, &mut |frame| assert!(frame.bytes() == expected, "{} bytes", expected.len()));
        assert!(begin.elapsed() < LONG, "{count} of 5");
    }
}

#[test]
fn a_frame_that_is_too_long_is_refused() {
    let mut cable = Cable::new();
    let frame = cable.frame(0, 0, 1515);
    assert_eq!(cable.ends[0].max_frame(), 1514);
    assert_eq!(cable.ends[0].write(&frame).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(cable.ends[0].send_control(&frame).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(cable.ends[0].mode().to_string(), "veth copy");
}

/// Opened and closed again and again, as a benchmark's rounds do.
#[test]
fn an_end_that_was_closed_can_be_opened() {
    let hosts = ["alpha", "beta"].map(|name| Host::new(name).expect("root"));
    let (a, _) = veth(&hosts[0], "am0", &hosts[1], "am0", &VethOptions::default()).unwrap();
    for _ in 0..5 {
        let raw = hosts[0].enter(|| Raw::open("am0", Attach::default()).unwrap()).unwrap();
        assert!(a.has_xdp().unwrap());
        drop(raw);
        // A child that another test has just started holds it too, until it runs its own program.
        let begin = Instant::now();
        while a.has_xdp().unwrap() {
            assert!(begin.elapsed() < LONG, "the program stays");
        }
    }
}
