//! Return to sender: a request without room is rejected, and is sent again later.

use std::time::Duration;

use crate::harness::{Buf, Faults, Net, name};
use am_proto::{EndpointId, FlowId, FramingChoice};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Buffer, Class, EtherType, Framing, Header, Kind};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// Fewer messages than any flow has credit for. A sender that has used all its credit asks for more now and then, which
/// is no repair.
const MIN_MESSAGES: u64 = 3;

/// Many nodes that send to one with little room.
struct Crowd {
    net: Net,
    receiver: usize,
    there: EndpointId,
    /// Sender, flow, and the next word to send on it.
    flows: Vec<(usize, FlowId, u64)>,
    /// How often each message arrived. A word is its flow's index and a number.
    seen: Vec<Vec<u8>>,
}

impl Crowd {
    fn new(seed: u64, framing: Framing, senders: usize, flows: usize, room: usize, each: u64) -> Crowd {
        let mut net = Net::new(seed);
        let mut config = fixed(&mut net, "beta", framing);
        config.receive_frames = room;
        let (receiver, there) = net.start(config);
        let mut all = Vec::new();
        for sender in 0..senders {
            let config = fixed(&mut net, &format!("sender{sender}"), framing);
            let (at, here) = net.start(config);
            all.extend((0..flows / senders).map(|_| (at, net.connect(at, here, "beta"), 0)));
        }
        let seen = vec![vec![0; each as usize]; all.len()];
        Crowd { net, receiver, there, flows: all, seen }
    }

    /// Every node sends as much as credit allows.
    fn send(&mut self) {
        let each = self.seen[0].len() as u64;
        for (index, (at, flow, next)) in self.flows.iter_mut().enumerate() {
            let word = |number| (index as u64) << 32 | number;
            while *next < each && self.net.send(*at, *flow, Class::Request, word(*next), b"").is_ok() {
                *next += 1;
            }
        }
    }

    /// The same, in bursts as a NIC delivers them.
    fn send_in_bursts(&mut self) {
        let each = self.seen[0].len() as u64;
        for index in 0..self.flows.len() {
            let (at, flow, next) = &mut self.flows[index];
            while *next < each && self.net.send(*at, *flow, Class::Request, (index as u64) << 32 | *next, b"").is_ok() {
                *next += 1;
            }
            let latency = self.net.latency;
            self.net.idle(latency);
        }
    }

    /// The receiver takes at most `most` messages.
    fn take(&mut self, most: usize) -> usize {
        let mut taken = 0;
        while taken < most
            && let Some(got) = self.net.extract(self.receiver, self.there)
        {
            let word = got.words().at(0);
            self.seen[(word >> 32) as usize][word as u32 as usize] += 1;
            taken += 1;
        }
        taken
    }

    /// Send and take until each message has arrived, once. Returns how long it took.
    fn finish(&mut self, limit: Duration) -> Duration {
        let start = self.net.now;
        let until = self.net.now + limit;
        let mut left: usize = self.seen.iter().flatten().filter(|&&times| times == 0).count();
        while left > 0 {
            self.send();
            left -= self.take(usize::MAX);
            assert!(left == 0 || self.net.step(until), "{left} never arrived");
        }
        let took = self.net.now - start;
        self.net.faults = Faults::default();
        self.net.idle(SECOND);
        assert_eq!(self.take(1), 0, "nothing is left over");
        assert!(self.seen.iter().flatten().all(|&times| times == 1), "each once");
        took
    }

    /// A counter, summed over all senders.
    fn count(&mut self, which: fn(&am_proto::Counters) -> u64) -> u64 {
        let receiver = self.receiver;
        let senders = self.net.nodes.iter().enumerate().filter(|&(at, _)| at != receiver);
        senders.map(|(_, node)| which(node.as_ref().unwrap().counters())).sum()
    }
}

fn fixed(net: &mut Net, named: &str, framing: Framing) -> am_proto::Config {
    let mut config = net.config(net.nodes.len(), named);
    config.framing = FramingChoice::Fixed(framing);
    config
}

#[test]
fn a_crowd_without_room_is_served_without_a_time_out() {
    for framing in Framing::ALL {
        let mut crowd = Crowd::new(1, framing, 6, 600, 64, MIN_MESSAGES);
        assert!(crowd.net.core(0).granted() > 64, "more credit is granted than there is room");
        crowd.send_in_bursts();
        crowd.net.idle(20 * MS);
        assert!(crowd.count(|c| c.rejects_received) > 1500);
        crowd.finish(10 * SECOND);
        let resent = crowd.count(|c| c.rejected_resent);
        assert_eq!(crowd.count(|c| c.timeouts), 0, "no time-out had to repair anything");
        assert_eq!(crowd.count(|c| c.retransmitted), resent, "and nothing else was sent again");
        assert_eq!(crowd.count(|c| c.rejects_received), resent, "all that came back went out again");
        assert_eq!(crowd.count(|c| c.rejects_stale), 0);
        let beta = crowd.net.core(0).counters();
        assert_eq!((beta.duplicates, beta.rejects_dropped), (0, 0));
    }
}

#[test]
fn fresh_messages_to_others_flow_while_a_receiver_has_no_room() {
    let mut crowd = Crowd::new(2, Framing::Plain, 1, 100, 16, 12);
    let sender = crowd.flows[0].0;
    let config = fixed(&mut crowd.net, "gamma", Framing::Plain);
    let (gamma, elsewhere) = crowd.net.start(config);
    let from = crowd.net.core(sender).add_endpoint(name("other"), 0).unwrap();
    let flow = crowd.net.connect(sender, from, "gamma");
    crowd.send();
    crowd.net.idle(MS);
    for number in 0..1000 {
        crowd.net.send(sender, flow, Class::Request, number, b"").unwrap();
        let start = crowd.net.now;
        crowd.net.run(SECOND, |net| net.extract(gamma, elsewhere).is_some());
        assert!(crowd.net.now - start < 2 * crowd.net.latency, "no slower than before");
    }
    crowd.finish(10 * SECOND);
}

#[test]
fn a_busy_receiver_is_neither_given_up_nor_flooded() {
    let mut crowd = Crowd::new(3, Framing::Bare, 2, 40, 16, MIN_MESSAGES);
    crowd.send();
    crowd.net.idle(5 * SECOND);
    let alone = crowd.count(|c| c.retransmitted + c.requests_sent) - crowd.count(|c| c.bundled_sent);
    let resent = alone + crowd.count(|c| c.bundles_sent);
    assert!(resent < 40 * 150, "at most one in 50 ms of each flow, once it has backed off: {resent}");
    let flows = crowd.flows.clone();
    assert!(flows.iter().all(|&(at, flow, _)| crowd.net.is_open(at, flow)));
    assert!(crowd.finish(SECOND) < 90 * MS, "one pause, and then as fast as it goes");
    assert_eq!(crowd.count(|c| c.timeouts), 0);
}

#[test]
fn a_slow_receiver_serves_all() {
    let mut crowd = Crowd::new(4, Framing::Split, 4, 80, 16, 12);
    let mut taken = 0;
    while taken < 80 * 12 {
        crowd.send();
        taken += crowd.take(1);
        crowd.net.idle(Duration::from_micros(20));
        assert!(crowd.net.now.0 < 60_000_000_000, "{taken} taken");
    }
    crowd.finish(SECOND);
}

#[test]
fn each_message_once_over_a_bad_wire_to_a_full_receiver() {
    for seed in 100..110 {
        let mut crowd = Crowd::new(seed, Framing::ALL[seed as usize % 3], 3, 60, 8, 12);
        crowd.net.faults = Faults { drop: 0.2, duplicate: 0.2, delay: 0.3 };
        crowd.send();
        crowd.net.idle(20 * MS);
        crowd.finish(100 * SECOND);
        assert!(crowd.count(|c| c.rejects_received) > 100);
    }
}

/// One sender that has filled the receiver, and one message more.
fn one_too_many(seed: u64) -> Crowd {
    let mut crowd = Crowd::new(seed, Framing::Bare, 1, 2, 3, 3);
    let (at, flow, _) = crowd.flows[0];
    for number in 0..3 {
        crowd.net.send(at, flow, Class::Request, number, b"").unwrap();
    }
    crowd.flows[0].2 = 3;
    crowd
}

#[test]
fn a_reject_that_is_lost_is_repaired_by_the_time_out() {
    let mut crowd = one_too_many(5);
    // The requests arrive. The answers to them are lost.
    crowd.net.drain();
    crowd.net.faults.drop = 1.0;
    let latency = crowd.net.latency;
    crowd.net.idle(latency * 2);
    crowd.net.faults.drop = 0.0;
    assert_eq!(crowd.net.core(0).counters().rejects_sent, 1);
    assert_eq!(crowd.count(|c| c.rejects_received + c.timeouts), 0, "the reject was lost, and no time-out has noticed");
    crowd.finish(SECOND);
    assert!(crowd.count(|c| c.timeouts) > 0);
}

#[test]
fn a_dropped_reject_is_repaired_by_the_time_out() {
    let mut crowd = Crowd::new(8, Framing::Plain, 6, 1200, 64, MIN_MESSAGES);
    crowd.send();
    let latency = crowd.net.latency;
    crowd.net.idle(latency * 2);
    assert!(crowd.net.core(0).counters().rejects_dropped > 500, "they all came at once");
    crowd.finish(10 * SECOND);
    assert!(crowd.count(|c| c.timeouts) > 0);
}

/// A forged reject for a sender.
fn forge(crowd: &mut Crowd, at: usize, flow: FlowId, seq: u32) {
    let mut bytes = vec![0; 60];
    let (to, from) = (crowd.net.core(at).config().address, crowd.net.core(0).config().address);
    let link = LinkAddresses { to, from, ethertype: EtherType::DEFAULT };
    let header = Header { kind: Kind::Reject, flow: flow.flow(), nonce: 0, handler: 0, words: 0, seq };
    frame::emit(&mut bytes, Framing::Bare, &link, &header, 0, None).unwrap();
    crowd.net.core(at).on_frame(Buf::of(&bytes));
}

#[test]
fn rejects_of_unsent_or_acknowledged_messages_change_nothing() {
    let mut crowd = Crowd::new(6, Framing::Bare, 1, 1, 64, 1);
    let (at, flow, _) = crowd.flows[0];
    for number in 0..100 {
        crowd.net.send(at, flow, Class::Request, 0, b"").unwrap();
        crowd.net.run(SECOND, |net| net.extract(0, crowd.there).is_some());
        // One in 50 of all numbers, wherever the flow's numbers are.
        (0..1 << Framing::Bare.seq_bits())
            .step_by(50)
            .for_each(|seq| forge(&mut crowd, at, flow, seq + number as u32 % 50));
        crowd.net.idle(MS);
    }
    let counters = crowd.net.core(at).counters().clone();
    assert_eq!(counters.rejects_stale, 100 * 82);
    assert_eq!((counters.rejects_received, counters.rejected_resent, counters.retransmitted), (0, 0, 0));
}

#[test]
fn a_reject_that_comes_twice_counts_once_and_a_late_one_costs_a_copy() {
    let mut crowd = one_too_many(7);
    crowd.net.faults.duplicate = 1.0;
    let latency = crowd.net.latency;
    crowd.net.idle(latency * 3);
    crowd.net.faults.duplicate = 0.0;
    let counters = crowd.net.core(1).counters().clone();
    assert_eq!(counters.rejects_received, 1);
    assert!(counters.rejects_stale > 0);
    crowd.finish(SECOND);
}

/// Of two messages, one is rejected again and again. The other is lost each time except once a second, because a
/// message that never arrives is given up.
#[test]
fn a_reject_is_a_sign_of_life_and_moves_no_time_out() {
    let mut crowd = Crowd::new(9, Framing::Bare, 1, 1, 64, 2);
    let (at, flow, _) = crowd.flows[0];
    crowd.net.faults.drop = 1.0;
    let core = crowd.net.core(at);
    let mut sent = [1; 2];
    for _ in sent {
        // Too large to share a frame.
        core.send(flow, Class::Request, 3, 0, Buf::fresh(2048), 800, |_| ()).map_err(|(error, _)| error).unwrap();
    }
    let mut seqs = vec![];
    let start = crowd.net.now;
    for round in 0..400 {
        let core = crowd.net.core(at);
        while let Some(transmit) = core.poll_transmit(&mut || Some(Buf::fresh(2048))) {
            let parsed = frame::parse(transmit.frame.bytes(), EtherType::DEFAULT).unwrap();
            if parsed.header.kind == Kind::Request && !seqs.contains(&parsed.header.seq) {
                seqs.push(parsed.header.seq);
            } else if parsed.header.kind == Kind::Request {
                sent[(parsed.header.seq != seqs[0]) as usize] += 1;
            }
        }
        let now = start + 10 * MS * round;
        core.run_deferred(now);
        forge(&mut crowd, at, flow, seqs[0]);
        if round % 100 == 99 {
            forge(&mut crowd, at, flow, seqs[1]);
        }
        crowd.net.core(at).on_timeout(now);
    }
    let counters = crowd.net.core(at).counters().clone();
    assert!(crowd.net.is_open(at, flow), "its rejects arrived every 10 ms for 4 s");
    assert_eq!(sent[0], 1 + counters.rejected_resent, "the rejected message is sent again only after its pauses");
    assert!(sent[0] > 20 && sent[1] > 20, "{sent:?}");
}

/// Each node is full of requests that it cannot answer: all its send frames hold requests for which the other node has
/// no room.
#[test]
fn two_nodes_that_are_full_of_each_others_requests_go_on() {
    for seed in 0..20 {
        let mut net = Net::new(seed);
        let ends = ["alpha", "beta"].map(|named| {
            let mut config = fixed(&mut net, named, Framing::Plain);
            (config.receive_frames, config.send_frames) = (8, 16);
            net.start(config)
        });
        let flows = [(0, "beta"), (1, "alpha")]
            .map(|(at, to)| (0..20).map(|_| net.connect(at, ends[at].1, to)).collect::<Vec<_>>());
        // A lost reply, sent again, finds its room taken by a request.
        net.faults.drop = if seed % 2 == 1 { 0.3 } else { 0.0 };
        let (mut sent, mut answered) = ([0; 2], 0);
        let until = net.now + 60 * SECOND;
        while answered < 1000 {
            assert!(net.step(until), "{answered} answered of {sent:?}");
            // First more requests, wherever there is room for one.
            for at in 0..2 {
                for flow in &flows[at] {
                    while sent[at] < 500 && net.send(at, *flow, Class::Request, 0, b"").is_ok() {
                        sent[at] += 1;
                    }
                }
            }
            for (at, end) in ends {
                while let Some(got) = net.core(at).poll_deliver(end) {
                    match got.class {
                        Class::Request => net.send(at, got.flow, Class::Reply, 0, b"").unwrap(),
                        Class::Reply => answered += 1,
                    }
                    net.core(at).release(got.flow, got.class, 1);
                }
            }
        }
    }
}
