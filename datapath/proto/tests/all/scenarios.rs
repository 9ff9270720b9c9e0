//! Scenarios of two or three nodes.

use std::time::Duration;

use crate::harness::{Faults, MAX_FRAME, Net, Wiring, name};
use am_proto::{FlowState, FramingChoice, FramingWhy, ReturnReason, SendError};
use am_wire::control::Refusal;
use am_wire::{Class, Framing};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_request_crosses_and_its_reply_comes_back() {
    let mut net = Net::new(1);
    let (alpha, here) = net.node("alpha");
    let (beta, there) = net.node("beta");
    let flow = net.connect(alpha, here, "beta");
    net.send(alpha, flow, Class::Request, 42, b"hello").unwrap();
    net.run(SECOND, |net| net.echo(beta, there));
    let mut reply = None;
    net.run(SECOND, |net| {
        reply = net.extract(alpha, here);
        reply.is_some()
    });
    let reply = reply.unwrap();
    assert_eq!((reply.class, reply.handler, reply.words().as_slice()), (Class::Reply, 3, &[42][..]));
    assert_eq!(reply.payload(), b"hello");
    net.idle(SECOND);
    assert_eq!(net.core(alpha).counters().timeouts + net.core(beta).counters().timeouts, 0);
    assert!(net.core(alpha).poll_deliver(here).is_none() && net.core(beta).poll_deliver(there).is_none());
}

#[test]
fn a_round_trip_is_two_frames_and_no_more() {
    let mut net = Net::new(2);
    let (alpha, here) = net.node("alpha");
    let (beta, there) = net.node("beta");
    let flow = net.connect(alpha, here, "beta");
    net.idle(Duration::from_millis(1));
    let before = net.sent;
    for round in 0..1000 {
        net.send(alpha, flow, Class::Request, round, b"").unwrap();
        net.run(SECOND, |net| net.echo(beta, there));
        net.run(SECOND, |net| net.extract(alpha, here).is_some());
    }
    assert_eq!(net.sent - before, 2000, "acknowledgements and credits ride in the padding");
}

fn framing_found(between: Wiring, nodes: &[&str]) -> (Framing, FramingWhy) {
    let mut net = Net::new(3);
    net.wiring = between;
    let (alpha, here) = net.node("alpha");
    for name in nodes {
        net.node(name);
    }
    let flow = net.connect(alpha, here, "beta");
    match net.core(alpha).state(flow) {
        FlowState::Open { framing, why, max_body, .. } => {
            assert_eq!(max_body, MAX_FRAME - framing.body_at());
            (framing, why)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn auto_takes_what_the_network_lets_through() {
    let three = ["beta", "gamma"];
    assert_eq!(framing_found(Wiring::Cable, &["beta"]), (Framing::Bare, FramingWhy::NothingLearns));
    assert_eq!(framing_found(Wiring::Cable, &three), (Framing::Split, FramingWhy::Shared), "a hub");
    assert_eq!(framing_found(Wiring::Switch, &three), (Framing::Split, FramingWhy::SwitchLearns));
    assert_eq!(framing_found(Wiring::SpoofFilter, &three), (Framing::Plain, FramingWhy::ForgedDropped));
}

/// Alpha and beta, both sending with the given framing.
fn pair(net: &mut Net, framing: Framing) -> [(usize, am_proto::EndpointId); 2] {
    ["alpha", "beta"].map(|named| {
        let mut config = net.config(net.nodes.len(), named);
        config.framing = FramingChoice::Fixed(framing);
        net.start(config)
    })
}

#[test]
fn every_framing_carries_every_length() {
    for framing in Framing::ALL {
        let mut net = Net::new(4);
        let [(alpha, here), (beta, there)] = pair(&mut net, framing);
        let flow = net.connect(alpha, here, "beta");
        let most = MAX_FRAME - framing.body_at() - 8;
        for length in (0..100).chain(most - 2..=most) {
            let payload: Vec<u8> = (0..length).map(|i| (i * 7 + length) as u8).collect();
            net.send(alpha, flow, Class::Request, length as u64, &payload).unwrap();
            let mut got = None;
            net.run(SECOND, |net| {
                got = net.extract(beta, there);
                got.is_some()
            });
            let got = got.unwrap();
            assert_eq!(got.words().as_slice(), &[length as u64]);
            assert_eq!(got.payload(), payload);
        }
        let refused = net.send(alpha, flow, Class::Request, 0, &vec![0; most + 1]);
        assert_eq!(refused, Err(SendError::TooLarge { needs: most + 9, max: most + 8 }));
    }
}

#[test]
fn credit_runs_out_and_returns_when_the_receiver_extracts() {
    let mut net = Net::new(5);
    let (alpha, here) = net.node("alpha");
    let (beta, there) = net.node("beta");
    let flow = net.connect(alpha, here, "beta");
    let mut admitted = 0;
    while net.send(alpha, flow, Class::Request, admitted, b"x").is_ok() {
        admitted += 1;
    }
    assert_eq!(admitted, 128);
    net.idle(SECOND);
    assert_eq!(
        net.send(alpha, flow, Class::Request, 0, b""),
        Err(SendError::NoCredit),
        "the receiver does not extract"
    );
    for n in 0..admitted {
        assert_eq!(net.extract(beta, there).unwrap().words().at(0), n);
    }
    net.idle(Duration::from_millis(1));
    assert_eq!(net.core(alpha).credit(flow, Class::Request), 128, "all credits are back");
    let counters = net.core(alpha).counters();
    assert!(counters.timeouts < 40 && counters.retransmitted < 40, "the last one asks now and then: {counters:?}");
}

/// Found by `netdev-sim`, seed 54: nothing was in flight any more, and neither side had a reason to repeat the grant.
#[test]
fn a_lost_grant_of_credit_is_repeated() {
    let mut net = Net::new(14);
    let (alpha, here) = net.node("alpha");
    let (beta, there) = net.node("beta");
    let flow = net.connect(alpha, here, "beta");
    while net.send(alpha, flow, Class::Request, 0, b"x").is_ok() {}
    net.idle(Duration::from_millis(10));
    while net.extract(beta, there).is_some() {}
    net.faults.drop = 1.0;
    net.idle(Duration::from_millis(1));
    assert_eq!(net.core(alpha).credit(flow, Class::Request), 0, "the grant was lost");
    net.faults.drop = 0.0;
    net.idle(Duration::from_millis(200));
    assert_eq!(net.core(alpha).credit(flow, Class::Request), 128);
}

#[test]
fn replies_leave_when_no_request_can() {
    let mut net = Net::new(6);
    let mut config = net.config(0, "alpha");
    (config.send_frames, config.coalesce_below) = (8, 0);
    let (alpha, here) = net.start(config);
    let (beta, there) = net.node("beta");
    let forth = net.connect(alpha, here, "beta");
    let back = net.connect(beta, there, "alpha");
    // Alpha owes a reply, then uses all its frames for requests.
    net.send(beta, back, Class::Request, 1, b"").unwrap();
    net.idle(Duration::from_millis(1));
    let owed = net.core(alpha).poll_deliver(here).unwrap();
    let mut sent = 0;
    while net.send(alpha, forth, Class::Request, sent, b"").is_ok() {
        sent += 1;
    }
    assert_eq!(sent, 6, "one frame is set aside for the reply, and one for segments");
    net.send(alpha, owed.flow, Class::Reply, 9, b"").unwrap();
    net.run(SECOND, |net| net.extract(beta, there).is_some_and(|got| got.class == Class::Reply));
}

/// Both sides send `count` requests over a bad wire. Half of them are answered.
fn storm(seed: u64, count: u64, faults: Faults, framing: Framing) {
    let mut net = Net::new(seed);
    let mut storm = Storm::new(&mut net, count, framing);
    net.faults = faults;
    storm.run(&mut net);
    net.faults = Faults::default();
    // The last grant of credit may be lost while credit is left. The next message brings it.
    storm.one_more();
    storm.run(&mut net);
    net.idle(SECOND);
    storm.check(&mut net, faults.drop > 0.0);
    assert!(faults.drop == 0.0 || net.core(0).counters().retransmitted > 0);
    assert!(net.core(0).counters().bundles_sent > 0 && net.core(1).counters().bundles_sent > 0);
}

/// Each array has one element for each side.
struct Storm {
    ends: [(usize, am_proto::EndpointId); 2],
    flows: [am_proto::FlowId; 2],
    /// The same flows as the other side names them, once requests have arrived.
    there: [Option<am_proto::FlowId>; 2],
    /// The next request to send.
    next: [u64; 2],
    count: u64,
    /// How often each request arrived.
    seen: [Vec<u8>; 2],
    /// How often each was answered.
    replies: [Vec<u8>; 2],
    /// Messages that have not arrived.
    left: u64,
}

impl Storm {
    fn new(net: &mut Net, count: u64, framing: Framing) -> Storm {
        let ends = pair(net, framing);
        let flows = [net.connect(0, ends[0].1, "beta"), net.connect(1, ends[1].1, "alpha")];
        let none = || [vec![0; count as usize], vec![0; count as usize]];
        let left = 4 * count - 2 * count.div_ceil(2);
        Storm { ends, flows, there: [None; 2], next: [0, 0], count, seen: none(), replies: none(), left }
    }

    fn one_more(&mut self) {
        self.seen.iter_mut().chain(&mut self.replies).for_each(|counts| counts.push(0));
        self.left += 4 - 2 * (self.count.is_multiple_of(2)) as u64;
        self.count += 1;
    }

    fn run(&mut self, net: &mut Net) {
        let until = net.now + Duration::from_secs(3600);
        while self.left > 0 {
            self.send(net);
            self.take(net);
            assert!(self.left == 0 || net.step(until), "{} messages never arrived", self.left);
        }
    }

    fn send(&mut self, net: &mut Net) {
        for (at, next) in self.next.iter_mut().enumerate() {
            while *next < self.count && net.send(at, self.flows[at], Class::Request, *next, &next.to_le_bytes()).is_ok()
            {
                *next += 1;
            }
        }
    }

    fn take(&mut self, net: &mut Net) {
        for at in 0..2 {
            while let Some(got) = net.core(at).poll_deliver(self.ends[at].1) {
                let word = got.words().at(0);
                assert_eq!(got.payload(), &word.to_le_bytes());
                let times = if got.class == Class::Request { &mut self.seen } else { &mut self.replies };
                times[at][word as usize] += 1;
                self.left -= 1;
                if got.class == Class::Request {
                    self.there[1 - at] = Some(got.flow);
                }
                match got.class {
                    Class::Request if word % 2 == 1 => {
                        net.send(at, got.flow, Class::Reply, word, &word.to_le_bytes()).unwrap();
                    }
                    Class::Request => net.core(at).decline_reply(got.flow),
                    Class::Reply => {}
                }
                net.core(at).release(got.flow, got.class, 1);
            }
        }
    }

    fn check(&self, net: &mut Net, lossy: bool) {
        for at in 0..2 {
            assert!(self.seen[at].iter().all(|&times| times == 1), "each request once");
            assert!(self.replies[at].iter().enumerate().all(|(n, &times)| times as usize == n % 2), "each reply once");
            assert!(net.core(at).poll_deliver(self.ends[at].1).is_none(), "nothing is left over");
            let granted = self.there[at].map_or(0, |flow| net.core(1 - at).granted_to(flow, Class::Request));
            assert_eq!(net.core(at).credit(self.flows[at], Class::Request), granted, "all credits are back");
            assert!(granted == 128 || (granted >= 16 && lossy), "{granted} where nothing is lost");
        }
    }
}

#[test]
fn each_message_once_over_a_bad_wire() {
    let faults = Faults { drop: 0.05, duplicate: 0.05, delay: 0.05 };
    for framing in Framing::ALL {
        storm(7, 100_000, faults, framing);
    }
    for seed in 100..120 {
        storm(seed, 2_000, Faults { drop: 0.3, duplicate: 0.3, delay: 0.3 }, Framing::Bare);
    }
}

#[test]
fn each_message_once_over_a_good_wire() {
    storm(8, 100_000, Faults::default(), Framing::Bare);
}

#[test]
fn a_peer_that_dies_gives_its_messages_back() {
    let mut net = Net::new(9);
    let (alpha, here) = net.node("alpha");
    let (beta, _) = net.node("beta");
    let flow = net.connect(alpha, here, "beta");
    net.nodes[beta] = None;
    for n in 0..100 {
        net.send(alpha, flow, Class::Request, n, &n.to_le_bytes()).unwrap();
    }
    let start = net.now;
    net.run(3 * SECOND, |net| matches!(net.core(alpha).state(flow), FlowState::Ended(_)));
    assert!(net.now - start < 2 * SECOND);
    for n in 0..100u64 {
        let back = net.core(alpha).poll_returned(here).unwrap();
        assert_eq!(back.reason, ReturnReason::Unreachable);
        assert_eq!((back.message.handler, back.message.words().as_slice()), (3, &[n][..]));
        assert_eq!(back.message.payload(), &n.to_le_bytes());
    }
    assert!(net.core(alpha).poll_returned(here).is_none());
    assert_eq!(net.send(alpha, flow, Class::Request, 0, b""), Err(SendError::Ended(ReturnReason::Unreachable)));
}

#[test]
fn a_peer_that_restarts_is_a_new_one() {
    let mut net = Net::new(10);
    let (alpha, here) = net.node("alpha");
    let (beta, _) = net.node("beta");
    let flow = net.connect(alpha, here, "beta");
    let there = net.restart(beta, "beta");
    net.send(alpha, flow, Class::Request, 1, b"for the first beta").unwrap();
    net.run(SECOND, |net| matches!(net.core(alpha).state(flow), FlowState::Ended(_)));
    assert_eq!(net.core(alpha).poll_returned(here).unwrap().reason, ReturnReason::Restarted);
    let again = net.connect(alpha, here, "beta");
    net.send(alpha, again, Class::Request, 2, b"for the second").unwrap();
    net.run(SECOND, |net| net.extract(beta, there).is_some_and(|got| got.words().at(0) == 2));
}

#[test]
fn refusals_say_why() {
    let mut net = Net::new(11);
    let (alpha, here) = net.node("alpha");
    let (_beta, _) = net.node("beta");
    let now = net.now;
    let none = net.core(alpha).connect(now, here, (name("beta"), name("nobody"), 7), true).unwrap();
    let wrong = net.core(alpha).connect(now, here, (name("beta"), name("app"), 8), true).unwrap();
    let absent = net.core(alpha).connect(now, here, (name("nowhere"), name("app"), 7), true).unwrap();
    net.idle(3 * SECOND);
    assert_eq!(net.core(alpha).state(none), FlowState::Refused(Refusal::NoEndpoint));
    assert_eq!(net.core(alpha).state(wrong), FlowState::Refused(Refusal::Tag));
    assert_eq!(net.core(alpha).state(absent), FlowState::Ended(ReturnReason::Unreachable));
}

#[test]
fn closing_tells_the_peer() {
    let mut net = Net::new(12);
    let (alpha, here) = net.node("alpha");
    let (beta, there) = net.node("beta");
    let flow = net.connect(alpha, here, "beta");
    net.send(alpha, flow, Class::Request, 1, b"").unwrap();
    net.idle(Duration::from_millis(1));
    let request = net.core(beta).poll_deliver(there).unwrap();
    net.core(alpha).close(flow);
    net.idle(Duration::from_millis(1));
    assert_eq!(net.core(beta).state(request.flow), FlowState::Ended(ReturnReason::Closed));
    let late = net.send(beta, request.flow, Class::Reply, 1, b"");
    assert_eq!(late, Err(SendError::Ended(ReturnReason::Closed)));
    // This side need not keep that in mind any more.
    net.core(beta).close(request.flow);
    assert_eq!(net.core(beta).state(request.flow), FlowState::Unknown);
    assert_eq!(net.core(alpha).state(flow), FlowState::Unknown);
}
