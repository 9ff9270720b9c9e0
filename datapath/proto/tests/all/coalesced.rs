//! Coalesced frames: several small messages in one.

use std::time::Duration;

use crate::harness::{Buf, Net};
use am_proto::{Command, Counters, EndpointId, FlowId, FramingChoice};
use am_wire::bounce::RejectTemplate;
use am_wire::coalesced::{MESSAGE_HEADER, Writer};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, Buffer, Class, EtherType, Flow, Framing, Header, Kind, Seq};

const MS: Duration = Duration::from_millis(1);

/// Alpha with a flow to beta, and beta's endpoint.
fn connected(net: &mut Net) -> (FlowId, EndpointId) {
    let (_, here) = net.node("alpha");
    let (_, there) = net.node("beta");
    let flow = net.connect(0, here, "beta");
    net.idle(MS);
    (flow, there)
}

/// As [`connected`], with another flow, to gamma.
fn connected_to_both(net: &mut Net) -> (FlowId, FlowId, EndpointId) {
    let (_, here) = net.node("alpha");
    let (_, there) = net.node("beta");
    net.node("gamma");
    let (flow, other) = (net.connect(0, here, "beta"), net.connect(0, here, "gamma"));
    net.idle(MS);
    (flow, other, there)
}

/// Sixty messages, behind the first of which one of another flow is ready: the others leave with the first before their turn.
fn send_around(net: &mut Net, flow: FlowId, other: FlowId) {
    send(net, flow, 0..1, small);
    send(net, other, 0..1, small);
    send(net, flow, 1..60, small);
}

/// The frames that leave alpha now.
fn frames(net: &mut Net) -> Vec<Vec<u8>> {
    let mut fresh = || Some(Buf::fresh(2048));
    std::iter::from_fn(|| net.core(0).poll_transmit(&mut fresh)).map(|it| it.frame.bytes().to_vec()).collect()
}

fn send(net: &mut Net, flow: FlowId, numbers: std::ops::Range<u64>, payload: impl Fn(u64) -> Vec<u8>) {
    numbers.for_each(|n| net.send(0, flow, Class::Request, n, &payload(n)).unwrap());
}

/// The numbers of the messages that beta gets. Each must have its own payload.
fn extracted(net: &mut Net, there: EndpointId, payload: impl Fn(u64) -> Vec<u8>) -> Vec<u64> {
    let check = |number, got: &[u8]| assert!(got == payload(number), "payload of {number}");
    std::iter::from_fn(|| net.extract(1, there))
        .inspect(|got| check(got.words().at(0), got.payload()))
        .map(|got| got.words().at(0))
        .collect()
}

fn small(n: u64) -> Vec<u8> {
    vec![n as u8; n as usize % 17]
}

fn counters(net: &mut Net, at: usize) -> Counters {
    net.core(at).counters().clone()
}

#[test]
fn messages_that_wait_together_leave_together_in_order() {
    let mut net = Net::new(1);
    let (flow, there) = connected(&mut net);
    let before = net.sent;
    send(&mut net, flow, 0..100, small);
    net.drain();
    assert_eq!(net.sent - before, 2, "62 and 38 messages");
    net.idle(MS);
    assert_eq!(extracted(&mut net, there, small), (0..100).collect::<Vec<_>>());
    net.idle(MS);
    let counters = counters(&mut net, 0);
    assert_eq!((counters.bundles_sent, counters.bundled_sent, counters.retransmitted), (2, 100, 0));
    assert_eq!(net.core(0).credit(flow, Class::Request), 128, "each message has given its credit back");
}

#[test]
fn a_single_message_leaves_alone_and_at_once() {
    let mut net = Net::new(2);
    let (flow, there) = connected(&mut net);
    for n in 0..200 {
        send(&mut net, flow, n..n + 1, small);
        let before = net.sent;
        net.drain();
        assert_eq!(net.sent - before, 1, "it does not wait");
        net.idle(MS);
        assert_eq!(extracted(&mut net, there, small), [n]);
    }
    assert_eq!(counters(&mut net, 0).bundles_sent, 0);
}

/// Large messages go alone, in their place, and no frame is too long.
#[test]
fn messages_of_all_sizes_in_one_stream() {
    let mixed = |n: u64| vec![n as u8; (n * n * 37 % 700) as usize];
    for framing in Framing::ALL {
        let mut net = Net::new(3);
        let mut config = net.config(0, "alpha");
        config.framing = FramingChoice::Fixed(framing);
        let (_, here) = net.start(config);
        let (_, there) = net.node("beta");
        let flow = net.connect(0, here, "beta");
        for round in 0..20 {
            let numbers = round * 120..(round + 1) * 120;
            send(&mut net, flow, numbers.clone(), mixed);
            net.idle(MS);
            assert_eq!(extracted(&mut net, there, mixed), numbers.collect::<Vec<_>>());
            net.idle(MS);
        }
        let counters = counters(&mut net, 0);
        assert!(counters.bundled_sent > 1000 && counters.bundled_sent < 2400, "{counters:?}");
    }
}

#[test]
fn a_coalesced_frame_is_no_longer_than_the_peer_takes() {
    let mut net = Net::new(4);
    let (_, here) = net.node("alpha");
    let mut config = net.config(1, "beta");
    config.max_frame = 200;
    let (_, there) = net.start(config);
    let flow = net.connect(0, here, "beta");
    net.idle(MS);
    let payload = |n: u64| vec![n as u8; n as usize % 90];
    send(&mut net, flow, 0..100, payload);
    let frames = frames(&mut net);
    assert!(frames.iter().all(|frame| frame.len() <= 200) && frames.len() < 60, "{} frames", frames.len());
    frames.iter().for_each(|frame| net.core(1).on_frame(Buf::of(frame)));
    assert_eq!(extracted(&mut net, there, payload), (0..100).collect::<Vec<_>>());
}

#[test]
fn without_coalescing_each_message_has_its_own_frame() {
    let mut net = Net::new(5);
    let mut config = net.config(0, "alpha");
    config.coalesce_below = 0;
    let (_, here) = net.start(config);
    net.node("beta");
    let flow = net.connect(0, here, "beta");
    send(&mut net, flow, 0..100, |_| Vec::new());
    assert_eq!(frames(&mut net).len(), 100);
}

#[test]
fn nothing_is_added_to_a_frame_of_a_closed_flow() {
    let mut net = Net::new(3);
    let (flow, there) = connected(&mut net);
    send(&mut net, flow, 0..1, small);
    net.core(0).close(flow);
    assert_eq!(net.send(0, flow, Class::Request, 1, &small(1)), Err(am_proto::SendError::Unknown));
    net.idle(MS);
    assert_eq!(extracted(&mut net, there, small), [0]);
}

#[test]
fn they_need_no_fresh_frame() {
    let mut net = Net::new(6);
    let (flow, _) = connected(&mut net);
    send(&mut net, flow, 0..10, small);
    let sent = std::iter::from_fn(|| net.core(0).poll_transmit(&mut || None)).count();
    assert_eq!(sent, 1);
}

/// What was written into the padding of a frame that the transport did not take is gone when a message is added to it.
#[test]
fn a_message_is_added_to_a_frame_that_was_not_taken() {
    let payload = |n: u64| vec![n as u8; (n / 2) as usize];
    for framing in Framing::ALL {
        let mut net = Net::new(16);
        let mut config = net.config(0, "alpha");
        config.framing = FramingChoice::Fixed(framing);
        let (_, here) = net.start(config);
        let (_, there) = net.node("beta");
        let flow = net.connect(0, here, "beta");
        let mut without_acks = 0;
        for n in (0..40).step_by(2) {
            net.idle(MS);
            for n in n..n + 2 {
                send(&mut net, flow, n..n + 1, payload);
                assert!(net.core(0).transmit(1, &mut || None, |_, _| false).is_refused);
            }
            // An acknowledgement may leave, too: the frame that was not taken had it.
            let mut frames = frames(&mut net);
            frames.retain(|frame| frame::parse(frame, EtherType::DEFAULT).unwrap().header.kind != Kind::Ack);
            assert_eq!(frames.len(), 1, "{framing}");
            let parsed = frame::parse(&frames[0], EtherType::DEFAULT).unwrap();
            if let Some((_, padding)) = frames[0][framing.body_at() + parsed.payload.len()..].split_last()
                && parsed.piggyback.is_none()
            {
                assert!(padding.iter().all(|byte| *byte == 0), "{framing}: {padding:?}");
                without_acks += 1;
            }
            net.core(1).on_frame(Buf::of(&frames[0]));
            assert_eq!(extracted(&mut net, there, payload), [n, n + 1]);
        }
        assert!(without_acks > 3, "{framing}");
    }
}

/// A frame of which some messages arrived, some found no handler, and some no room: each is handled once or returned once.
#[test]
fn of_a_frame_that_was_accepted_in_part_the_rest_leaves_again() {
    let mut net = Net::new(17);
    let (_, here) = net.node("alpha");
    let mut config = net.config(1, "beta");
    config.receive_frames = 16;
    let (_, there) = net.start(config);
    let flows: Vec<_> = (0..9).map(|_| net.connect(0, here, "beta")).collect();
    net.idle(MS);
    net.core(1).set_all_handlers(there, false);
    [Class::Request, Class::Reply].into_iter().for_each(|class| net.core(1).add_handler(there, class, 3));
    let (mut handled, mut returned, mut sent) = (vec![], vec![], 0);
    for round in 0..200 {
        for (n, flow) in (0..).zip(flows.iter().flat_map(|flow| [flow; 6])) {
            let handler = if n % 5 == round % 7 { 4 } else { 3 };
            sent += u64::from(net.send_to(0, *flow, Class::Request, handler, sent, &small(sent)).is_ok());
        }
        net.idle(MS);
        handled.extend(extracted(&mut net, there, small));
        returned.extend(std::iter::from_fn(|| net.core(0).poll_returned(here)).map(|it| {
            assert_eq!(it.message.payload(), small(it.message.words().at(0)));
            it.message.words().at(0)
        }));
        if round % 3 == 0 {
            net.idle(60 * MS);
        }
    }
    net.idle(Duration::from_secs(1));
    handled.extend(extracted(&mut net, there, small));
    net.idle(Duration::from_secs(1));
    returned.extend(std::iter::from_fn(|| net.core(0).poll_returned(here)).map(|it| it.message.words().at(0)));
    let (without, too_full) = (counters(&mut net, 1).no_handler, counters(&mut net, 1).no_room);
    assert!(without > 100 && too_full > 100, "{without} without a handler, {too_full} without room");
    assert_eq!(returned.len() as u64, without);
    let mut all = [handled, returned].concat();
    all.sort_unstable();
    assert_eq!(all, (0..sent).collect::<Vec<_>>());
    assert_eq!(net.core(0).kept_messages(), 0);
}

/// Messages of two flows in turn: those of one flow leave together.
#[test]
fn messages_of_two_flows_in_turn_are_coalesced() {
    let mut net = Net::new(7);
    let (_, here) = net.node("alpha");
    let (_, there) = net.node("beta");
    let (_, elsewhere) = net.node("gamma");
    let flow = net.connect(0, here, "beta");
    let other = net.connect(0, here, "gamma");
    net.idle(MS);
    for n in 0..40 {
        send(&mut net, flow, n..n + 1, small);
        send(&mut net, other, n..n + 1, small);
    }
    let before = net.sent;
    net.drain();
    assert_eq!(net.sent - before, 2);
    net.idle(MS);
    assert_eq!(extracted(&mut net, there, small), (0..40).collect::<Vec<_>>());
    let gammas = std::iter::from_fn(|| net.extract(2, elsewhere)).map(|got| got.words().at(0));
    assert_eq!(gammas.collect::<Vec<_>>(), (0..40).collect::<Vec<_>>());
    net.idle(MS);
    assert_eq!(counters(&mut net, 0).retransmitted, 0);
}

/// A whole coalesced frame is lost. Later messages reveal it, without a time-out.
#[test]
fn later_messages_reveal_a_lost_coalesced_frame() {
    let mut net = Net::new(8);
    let (flow, there) = connected(&mut net);
    // The first round trips give a round-trip estimate.
    for n in 0..20 {
        send(&mut net, flow, n..n + 1, small);
        net.idle(MS);
        extracted(&mut net, there, small);
        net.idle(MS);
    }
    let timeouts = counters(&mut net, 0).timeouts;
    send(&mut net, flow, 20..90, small);
    let mut frames = frames(&mut net);
    assert_eq!(frames.len(), 2, "and the first of them is lost");
    for now in [net.now, net.now + Duration::from_micros(100)] {
        net.core(0).run_deferred(now);
        net.now = now;
    }
    let now = net.now;
    net.core(1).run_deferred(now);
    net.core(1).on_frame(Buf::of(&frames.remove(1)));
    net.idle(Duration::from_micros(60));
    let mut got = extracted(&mut net, there, small);
    got.sort_unstable();
    assert_eq!(got, (20..90).collect::<Vec<_>>());
    let counters = counters(&mut net, 0);
    assert_eq!((counters.fast_retransmits, counters.timeouts), (62, timeouts));
}

/// Messages added to the frame of one that waits in front of another flow's leave with it.
#[test]
fn a_message_that_left_before_its_turn_is_not_sent_again() {
    let mut net = Net::new(9);
    let (flow, other, there) = connected_to_both(&mut net);
    send_around(&mut net, flow, other);
    let first = net.core(0).poll_transmit(&mut || Some(Buf::fresh(2048))).unwrap();
    net.core(1).on_frame(Buf::of(first.frame.bytes()));
    assert_eq!(extracted(&mut net, there, small).len(), 60);
    let reply = net.core(1).poll_transmit(&mut || Some(Buf::fresh(2048))).unwrap();
    net.core(0).on_frame(Buf::of(reply.frame.bytes()));
    let now = net.now;
    net.core(0).run_deferred(now);
    assert_eq!(net.core(0).credit(flow, Class::Request), 128);
    assert_eq!(frames(&mut net).len(), 1, "the other flow's");
    for round in 1..50 {
        let numbers = round * 60..(round + 1) * 60;
        send(&mut net, flow, numbers.clone(), small);
        net.idle(MS);
        assert_eq!(extracted(&mut net, there, small), numbers.collect::<Vec<_>>());
        net.idle(MS);
    }
}

#[test]
fn a_message_lost_before_its_turn_is_sent_again() {
    let mut net = Net::new(10);
    let (flow, other, there) = connected_to_both(&mut net);
    // The beacons that follow the start are over.
    net.idle(Duration::from_secs(2));
    send_around(&mut net, flow, other);
    let lost = net.core(0).poll_transmit(&mut || Some(Buf::fresh(2048)));
    assert!(lost.is_some());
    // Time passes before the queue is drained further.
    let now = net.now;
    net.core(0).run_deferred(now);
    let later = net.now + 100 * MS;
    net.now = later;
    net.core(0).on_timeout(later);
    assert_eq!((frames(&mut net).len(), counters(&mut net, 0).retransmitted), (2, 60), "and they are lost, too");
    net.idle(100 * MS);
    let mut got = extracted(&mut net, there, small);
    got.sort_unstable();
    assert_eq!(got, (0..60).collect::<Vec<_>>());
}

/// Numbers wrap in the middle of a coalesced frame: in 32 bits, and in the 16 bits that `bare` carries.
#[test]
fn numbers_wrap_inside_a_coalesced_frame() {
    let cases = Framing::ALL.map(|framing| [(framing, u32::MAX - 20), (framing, 0xffff - 20)]);
    for (framing, first) in cases.into_iter().flatten() {
        for is_lost in [false, true] {
            let mut net = Net::new(14);
            let mut config = net.config(0, "alpha");
            (config.framing, config.first_seq) = (FramingChoice::Fixed(framing), Some(first));
            let (_, here) = net.start(config);
            let (_, there) = net.node("beta");
            let flow = net.connect(0, here, "beta");
            net.idle(MS);
            send(&mut net, flow, 0..60, small);
            let coalesced = frames(&mut net);
            assert_eq!(coalesced.len(), 1);
            if !is_lost {
                // The frame arrives twice.
                (0..2).for_each(|_| net.core(1).on_frame(Buf::of(&coalesced[0])));
                assert_eq!(counters(&mut net, 1).duplicates, 60);
            }
            net.idle(100 * MS);
            let mut got = extracted(&mut net, there, small);
            got.sort_unstable();
            assert_eq!(got, (0..60).collect::<Vec<_>>(), "{framing} from {first}, lost: {is_lost}");
            net.idle(MS);
            let sent = counters(&mut net, 0);
            assert_eq!((net.core(0).credit(flow, Class::Request), sent.returned), (128, 0));
            assert_eq!(sent.retransmitted > 0, is_lost, "{framing} from {first}");
        }
    }
}

/// A coalesced frame of messages without words and payload, as any host could forge it.
fn forged(flow: Flow, to: Address, seq: u32, count: usize) -> Buf {
    let mut space = vec![0; 14 + 12 + MESSAGE_HEADER * count.max(20)];
    let mut writer = Writer::new(&mut space[Framing::Bare.body_at()..]);
    (0..count).for_each(|n| assert!(writer.push(n as u8, 0, &[])));
    let body = writer.length();
    let header = Header { kind: Kind::Coalesced(Class::Request), flow, nonce: 0, handler: 0, words: 0, seq };
    let link = LinkAddresses { to, from: Address::default(), ethertype: EtherType::DEFAULT };
    let length = frame::emit(&mut space, Framing::Bare, &link, &header, body, None).unwrap();
    Buf::of(&space[..length])
}

/// A frame with some old messages, some new ones and some beyond the window, wherever it starts.
#[test]
fn each_message_of_a_coalesced_frame_is_judged_by_itself() {
    let mut net = Net::new(11);
    let (flow, there) = connected(&mut net);
    send(&mut net, flow, 0..1, small);
    let first = frames(&mut net).remove(0);
    let parsed = frame::parse(&first, EtherType::DEFAULT).unwrap();
    let (theirs, start, to) = (parsed.header.flow, Seq(parsed.header.seq), net.core(1).config().address);
    net.core(1).on_frame(Buf::of(&first));
    assert_eq!(extracted(&mut net, there, small), [0]);
    let mut deliver = |from: i32, count| {
        let seq = start.plus(from as u32).0 & 0xffff;
        net.core(1).on_frame(forged(theirs, to, seq, count));
        std::iter::from_fn(|| net.extract(1, there)).map(|got| got.handler).collect::<Vec<_>>()
    };
    assert_eq!(deliver(-3, 6), [4, 5], "three before the first, the first, two new ones");
    assert_eq!(deliver(5, 2), [], "they wait for what is missing before them");
    assert_eq!(deliver(2, 6), [1, 2, 0, 1, 5], "the gap, those that waited, and one behind");
    assert_eq!(deliver(8 + 510, 4), [], "they wait, and the window ends");
    let counters = counters(&mut net, 1);
    assert_eq!((counters.duplicates, counters.beyond_window), (4 + 3, 2));
}

/// The transport may reject the next frames by itself, whether the frame without room was coalesced or not.
#[test]
fn a_coalesced_frame_without_room_tells_the_transport() {
    let mut net = Net::new(13);
    let (_, here) = net.node("alpha");
    let mut config = net.config(1, "beta");
    config.receive_frames = 8;
    let (_, there) = net.start(config);
    let flow = net.connect(0, here, "beta");
    send(&mut net, flow, 0..1, small);
    let first = frame::parse(&frames(&mut net)[0], EtherType::DEFAULT).unwrap().header;
    let to = net.core(1).config().address;
    let fulls = |net: &mut Net| -> Vec<bool> {
        let full = |command| if let Command::RxFull(is_full) = command { Some(is_full) } else { None };
        std::iter::from_fn(|| net.core(1).poll_command()).filter_map(full).collect()
    };
    net.core(1).on_frame(forged(first.flow, to, first.seq, 6));
    assert_eq!(fulls(&mut net), [], "there was room for six");
    net.core(1).on_frame(forged(first.flow, to, (first.seq + 6) & 0xffff, 2));
    assert_eq!((fulls(&mut net), counters(&mut net, 1).no_room), (vec![true], 2));
    assert_eq!(std::iter::from_fn(|| net.extract(1, there)).count(), 6);
    net.idle(MS);
    assert_eq!(fulls(&mut net), [false]);
}

#[test]
fn messages_without_room_are_sent_again() {
    let mut net = Net::new(12);
    let (_, here) = net.node("alpha");
    let mut config = net.config(1, "beta");
    config.receive_frames = 16;
    let (_, there) = net.start(config);
    let flows: Vec<_> = (0..9).map(|_| net.connect(0, here, "beta")).collect();
    let mut numbers = 0..;
    for flow in flows {
        while net.core(0).credit(flow, Class::Request) > 0 {
            let n = numbers.next().unwrap();
            send(&mut net, flow, n..n + 1, small);
        }
    }
    let count = numbers.next().unwrap();
    net.idle(MS);
    assert!(counters(&mut net, 1).no_room > 0, "more credit is granted than there is room");
    let mut got = Vec::new();
    for _ in 0..200 {
        got.extend(extracted(&mut net, there, small));
        net.idle(MS);
    }
    got.sort_unstable();
    assert_eq!(got, (0..count).collect::<Vec<_>>());
}

/// The XDP program rejects it by its first number, the only one that it reads.
#[test]
fn a_coalesced_frame_is_rejected_as_a_whole() {
    let mut net = Net::new(15);
    let (flow, there) = connected(&mut net);
    send(&mut net, flow, 0..10, small);
    let coalesced = frames(&mut net).remove(0);
    send(&mut net, flow, 10..12, small);
    net.drain();
    let link = LinkAddresses {
        to: net.core(0).config().address,
        from: net.core(1).config().address,
        ethertype: EtherType::DEFAULT,
    };
    let way_back = RejectTemplate::new(Framing::Bare, &link, flow.flow(), 0);
    let reject = way_back.reject(coalesced.first_chunk().unwrap(), EtherType::DEFAULT).unwrap();
    for _ in 0..2 {
        net.core(0).on_frame(Buf::of(&reject));
    }
    let Counters { rejects_received, rejects_stale, .. } = counters(&mut net, 0);
    assert_eq!((rejects_received, rejects_stale), (10, 1));
    net.idle(MS);
    let mut got = extracted(&mut net, there, small);
    got.sort_unstable();
    assert_eq!(got, (0..12).collect::<Vec<_>>());
    let Counters { rejected_resent, retransmitted, .. } = counters(&mut net, 0);
    assert_eq!((rejected_resent, retransmitted), (10, 10));
    net.core(0).on_frame(Buf::of(&reject));
    assert_eq!(counters(&mut net, 0).rejects_received, 10, "acknowledged since");
}
