//! Frames go in order, and come home. Needs root.

use std::time::Instant;

use crate::pair::{Cable, PATIENCE, counter, eventually, flow, frames_out, message, number, plain};
use am_afxdp::{Rings, XdpOptions};
use am_netns::VethOptions;
use am_ring::{Layout, Pool};
use am_transport::{Transport, TransportExt};
use am_wire::Buffer;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;

#[test]
fn the_mode_is_the_kernels_word() {
    let (_cable, pair) = plain();
    assert_eq!(pair.near.caps().mode, "veth copy");
    assert_eq!(pair.near.caps().name, "xdp:am0");
    assert!(pair.near.mode().notes.iter().any(|note| note.starts_with("no zero-copy: veth says")));
}

/// Zero-copy is tried with chunks that a NIC may round down; the kernel needs no such room.
#[test]
fn in_copy_mode_chunks_are_as_small_as_the_mtu_allows() {
    let room = |mtu| {
        let cable = Cable::new(&VethOptions { mtu, ..VethOptions::default() });
        let end = cable.open(0, &XdpOptions::new("am0")).unwrap();
        let mut frame = end.caps().pool.take().unwrap();
        (frame.space().unwrap().len(), end.mode().multi_buffer)
    };
    assert_eq!([1500, 1778, 1779, 3500].map(room), [1792, 1792, 3840, 3840].map(|room| (room, false)));
}

/// Several times around every ring.
#[test]
fn frames_keep_their_order() {
    let (_cable, mut pair) = plain();
    let received = pair.deliver(20_000, 50).len() as u64;
    assert_eq!(counter(&pair.near, "tx_frames"), 20_000);
    assert_eq!(counter(&pair.far, "rx_frames"), received);
    assert_eq!(counter(&pair.far, "rx_bytes"), received * 60);
}

#[test]
fn rings_of_any_size_and_few_frames() {
    let cable = Cable::new(&VethOptions::default());
    let mut options = XdpOptions::new("am0");
    options.rings = Rings { rx: 64, tx: 16, fill: 32, completion: 8 };
    options.frames = 64;
    let mut pair = cable.pair(&options);
    pair.deliver(5_000, 20);
    assert_eq!((frames_out(&pair.near, &options), frames_out(&pair.far, &options)), (0, 0));
    assert!(counter(&pair.near, "tx_full") > 0, "8 completions were the bound");
}

#[test]
fn every_frame_comes_home() {
    let (_cable, mut pair) = plain();
    let options = XdpOptions::new("am0");
    let mut kept = Vec::new();
    for round in 0..200 {
        pair.send((0..40).map(|at| round * 40 + at));
        pair.far.receive(64, &mut |frame| {
            // Some are kept for a while, some of those shared.
            if number(&frame).is_multiple_of(3) {
                kept.push(frame.share());
            }
            if number(&frame).is_multiple_of(5) {
                kept.push(frame);
            }
        });
        if kept.len() > 500 {
            kept.clear();
        }
    }
    kept.clear();
    eventually("all are home", || {
        pair.receive();
        pair.near.flush();
        (frames_out(&pair.near, &options), frames_out(&pair.far, &options)) == (0, 0)
    });
}

/// A retransmit queue holds a frame while the NIC has it, twice.
#[test]
fn a_frame_can_be_on_its_way_twice() {
    let (_cable, mut pair) = plain();
    let to = pair.far.caps().address;
    let held = message(&pair.near, to, 42).unwrap();
    assert!(pair.near.send(to, &held), "room");
    assert!(pair.near.send(to, &held), "room");
    pair.near.flush();
    let mut received = Vec::new();
    eventually("both arrive", || {
        received.extend(pair.receive());
        received == [42, 42]
    });
    assert_eq!(number(&held), 42, "and it is what it was");
    drop(held);
    pair.near.flush();
    assert_eq!(frames_out(&pair.near, &XdpOptions::new("am0")), 0);
}

#[test]
fn what_no_ethernet_carries_is_counted_and_dropped() {
    let (_cable, mut pair) = plain();
    let to = pair.far.caps().address;
    let with_length = |length: usize| {
        let mut frame = message(&pair.near, to, 1).unwrap();
        frame.set_len(length);
        frame
    };
    let bad = [with_length(0), with_length(13), with_length(1515)];
    for frame in bad {
        assert!(pair.near.send(to, &frame), "room");
    }
    pair.near.flush();
    assert_eq!((counter(&pair.near, "tx_invalid"), counter(&pair.near, "tx_frames")), (3, 0));
    assert_eq!(frames_out(&pair.near, &XdpOptions::new("am0")), 0);
    pair.assert_alive(2);
}

#[test]
fn frames_of_another_pool_are_copied() {
    let (_cable, mut pair) = plain();
    let to = pair.far.caps().address;
    let ours = message(&pair.near, to, 77).unwrap();
    let other = Pool::heap(Layout { frames: 1, stride: 2048, headroom: 0 }).unwrap();
    let foreign = other.copy(ours.bytes()).unwrap();
    assert!(pair.near.send(to, &foreign), "room");
    drop(foreign);
    assert_eq!(other.available(), 1, "nobody else keeps it");
    pair.near.flush();
    let mut received = Vec::new();
    eventually("it arrives", || {
        received.extend(pair.receive());
        received == [77]
    });
    assert_eq!(counter(&pair.near, "tx_copied"), 1);
}

#[test]
fn a_closed_flow_is_dropped_before_the_socket() {
    let (_cable, mut pair) = plain();
    pair.far.steer(flow(), false);
    pair.send(0..10);
    eventually("all ten are counted", || counter(&pair.far, "xdp_drop_unknown_flow") == 10);
    assert!(pair.receive().is_empty());
    assert_eq!([(); 2].map(|()| pair.far.unknown_flow()), [Some(flow()), None], "so that their sender can be told");
    pair.far.steer(flow(), true);
    pair.assert_alive(11);
}

#[test]
fn a_sleeper_is_woken_by_a_frame() {
    let (_cable, mut pair) = plain();
    let wake = pair.far.caps().wake.clone().unwrap();
    let wait = |milliseconds: u16| {
        let mut on = [PollFd::new(wake[0].as_fd(), PollFlags::POLLIN)];
        poll(&mut on, PollTimeout::from(milliseconds)).unwrap()
    };
    assert_eq!(wait(20), 0, "nothing has come");
    pair.send(0..1);
    let start = Instant::now();
    assert_eq!(wait(10_000), 1);
    assert!(start.elapsed() < PATIENCE);
    assert_eq!(pair.receive(), [0]);
    assert_eq!(wait(0), 0, "and it is quiet again");
}

#[test]
fn closing_gives_queue_and_frames_back_while_frames_are_held() {
    let cable = Cable::new(&VethOptions::default());
    let options = XdpOptions::new("am0");
    let (mut kept, mut waits) = (Vec::new(), Vec::new());
    for round in 0..5 {
        let mut pair = cable.pair(&options);
        waits.extend(pair.near.caps().wake.clone());
        pair.assert_alive(round);
        pair.send(std::iter::once(round));
        eventually("one arrives", || pair.far.receive(1, &mut |frame| kept.push(frame)) > 0);
        let pool = pair.far.caps().pool.clone();
        drop(pair);
        assert!(cable.ends[0].loses_xdp().unwrap());
        assert_eq!(pool.available(), options.frames as usize - 1, "all but the one that is held");
    }
    assert!(kept.iter().map(number).eq(0..5), "held frames outlive their transports");
}

/// As by a NIC that counts the check sequence.
#[test]
fn frames_with_four_bytes_more_are_dropped_and_said() {
    let (_cable, mut pair) = plain();
    let to = pair.far.caps().address;
    for number in 0..20 {
        let mut frame = message(&pair.near, to, number).unwrap();
        frame.set_len(frame.bytes().len() + 4);
        assert!(pair.near.send(to, &frame), "room");
    }
    pair.near.flush();
    eventually("it says so", || pair.far.link_error().is_some());
    let said = pair.far.link_error().unwrap();
    assert!(said.starts_with("20 frames came to am0 longer or shorter than they were sent, and 0 as"), "{said}");
    assert!(said.contains("`ethtool -K am0 rx-fcs off`"), "{said}");
    assert!(pair.receive().is_empty());
    pair.deliver(100, 10);
    eventually("all is well", || pair.far.link_error().is_none());
}
