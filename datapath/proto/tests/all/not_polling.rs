//! Peers that are alive and do not poll: what waits for them, for how long, and what happens when they poll again or die.

use std::time::Duration;

use crate::harness::{Buf, Net, name};
use am_proto::{Config, Core, EndpointId, Event, FlowId, FlowState, MemberChange, ReturnReason, Time};
use am_wire::{Address, Class};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// Between two heartbeats.
const BEAT: Duration = Duration::from_millis(200);

/// How a peer's signs of life come.
#[derive(Clone, Copy, Debug)]
enum Sign {
    Heartbeat,
    /// The transport knows.
    Transport,
}

struct Pair {
    net: Net,
    alpha: (usize, EndpointId),
    beta: (usize, EndpointId),
    flow: FlowId,
    /// Beta's core while its program does not poll. Frames for it are lost then: its ring is full.
    away: Option<Core<Buf>>,
    heartbeat: Vec<u8>,
}

impl Pair {
    fn new(seed: u64, settings: impl Fn(&mut Config)) -> Pair {
        let mut net = Net::new(seed);
        let [alpha, beta] = ["alpha", "beta"].map(|named| {
            let at = net.nodes.len();
            let mut config = net.config(at, named);
            settings(&mut config);
            net.start(config)
        });
        let flow = net.connect(alpha.0, alpha.1, "beta");
        net.idle(10 * MS);
        let heartbeat = net.core(beta.0).heartbeat();
        Pair { net, alpha, beta, flow, away: None, heartbeat }
    }

    fn stop(&mut self) {
        self.away = self.net.nodes[self.beta.0].take();
    }

    fn resume(&mut self) {
        self.net.nodes[self.beta.0] = self.away.take();
        self.net.core(self.beta.0).on_late();
    }

    /// Ask for a flow, and do not wait for it.
    fn ask(&mut self, node: &str) -> FlowId {
        let (now, to) = (self.net.now, (name(node), name("app"), 7));
        self.net.core(self.alpha.0).connect(now, self.alpha.1, to, true).unwrap()
    }

    fn send(&mut self, word: u64) {
        self.net.send(self.alpha.0, self.flow, Class::Request, word, b"").unwrap();
    }

    /// Let time pass, with signs of life.
    fn pass(&mut self, time: Duration, sign: Sign) {
        let until = self.net.now + time;
        while self.net.now < until {
            match sign {
                Sign::Heartbeat => {
                    let frame = Buf::of(&self.heartbeat);
                    let now = self.net.now;
                    self.net.core(self.alpha.0).run_deferred(now);
                    self.net.core(self.alpha.0).on_frame(frame);
                }
                Sign::Transport => {
                    let now = self.net.now;
                    self.net.core(self.alpha.0).run_deferred(now);
                    let asked: Vec<Address> = self.asked_alive();
                    asked.into_iter().for_each(|peer| self.net.core(self.alpha.0).on_peer_alive(peer));
                }
            }
            self.net.idle(BEAT);
        }
    }

    fn asked_alive(&mut self) -> Vec<Address> {
        let core = self.net.core(self.alpha.0);
        let all = std::iter::from_fn(|| core.poll_command());
        all.filter_map(|command| if let am_proto::Command::AskAlive(peer) = command { Some(peer) } else { None })
            .collect()
    }

    fn ended(&mut self) -> Option<ReturnReason> {
        self.net.events(self.alpha.0).into_iter().find_map(|event| match event {
            Event::Ended(.., ending) => Some(ending.reason),
            _ => None,
        })
    }

    /// Beta's handlers run until nothing comes any more. Returns the words that they got.
    fn handle(&mut self) -> Vec<u64> {
        self.net.idle(100 * MS);
        let all = std::iter::from_fn(|| {
            let word = self.net.extract(self.beta.0, self.beta.1).map(|request| request.words().at(0));
            self.net.idle(MS);
            word
        });
        all.collect()
    }
}

#[test]
fn requests_wait_ten_minutes_for_a_program_that_does_not_poll() {
    for sign in [Sign::Heartbeat, Sign::Transport] {
        let mut pair = Pair::new(1, |_| ());
        pair.stop();
        (0..3).for_each(|word| pair.send(word));
        pair.net.idle(BEAT);
        let sent = pair.net.sent;
        pair.pass(10 * MINUTE, sign);
        // Each message of the first second was sent again some times, and one now and then.
        let frames = pair.net.sent - sent;
        assert!(frames < 400, "{sign:?}: {frames} frames in ten minutes, beacons and keepalives included");
        assert_eq!(pair.ended(), None, "{sign:?}");
        let (now, since) = (pair.net.now, pair.net.core(pair.alpha.0).not_polling_since(pair.flow));
        assert!(
            since.is_some_and(|since| now - since > 9 * MINUTE),
            "{sign:?}: not polling since {since:?} of {now:?}"
        );
        pair.resume();
        assert_eq!(pair.handle(), [0, 1, 2], "{sign:?}");
        assert_eq!(pair.net.core(pair.alpha.0).not_polling_since(pair.flow), None);
    }
}

#[test]
fn what_was_lost_meanwhile_is_sent_again_at_once() {
    let mut pair = Pair::new(2, |_| ());
    pair.stop();
    (0..40).for_each(|word| pair.send(word));
    pair.pass(MINUTE, Sign::Heartbeat);
    pair.resume();
    let begin = pair.net.now;
    pair.net.run(SECOND, |net| !net.core(0).has_unacknowledged(pair.flow));
    assert!(pair.net.now - begin < 20 * MS, "{:?}", pair.net.now - begin);
}

#[test]
fn a_process_that_dies_meanwhile_is_noticed_as_fast_as_any_other() {
    for time in [SECOND, MINUTE] {
        let mut pair = Pair::new(3, |_| ());
        pair.stop();
        pair.send(1);
        pair.pass(time, Sign::Heartbeat);
        let (begin, patience) = (pair.net.now, pair.net.core(0).config().patience);
        pair.net.run(MINUTE, |net| matches!(net.core(0).state(pair.flow), FlowState::Ended(_)));
        assert_eq!(pair.ended(), Some(ReturnReason::Unreachable));
        let after = pair.net.now - begin;
        assert!(after <= patience + 100 * MS, "{after:?} after the last heartbeat but one");
    }
}

#[test]
fn a_second_limit_bounds_a_program_that_does_not_poll() {
    let limit = 30 * SECOND;
    let mut pair = Pair::new(4, |config| config.poll_patience = Some(limit));
    pair.stop();
    pair.send(1);
    pair.pass(limit - SECOND, Sign::Heartbeat);
    assert_eq!(pair.ended(), None);
    pair.pass(2 * SECOND, Sign::Heartbeat);
    assert_eq!(pair.ended(), Some(ReturnReason::NotPolling));
}

#[test]
fn a_flow_at_rest_outlasts_the_keepalive() {
    let mut pair = Pair::new(5, |_| ());
    pair.stop();
    pair.pass(5 * MINUTE, Sign::Heartbeat);
    assert_eq!(pair.ended(), None);
    pair.resume();
    pair.send(7);
    assert_eq!(pair.handle(), [7]);
}

#[test]
fn a_sender_without_credit_waits_and_gets_some_afterwards() {
    let mut pair = Pair::new(6, |_| ());
    let mut word = 0;
    while pair.net.send(pair.alpha.0, pair.flow, Class::Request, word, b"").is_ok() {
        word += 1;
    }
    pair.net.idle(10 * MS);
    pair.stop();
    pair.pass(2 * MINUTE, Sign::Heartbeat);
    assert_eq!(pair.ended(), None);
    pair.resume();
    assert_eq!(pair.handle().len() as u64, word);
    pair.send(word);
    assert_eq!(pair.handle(), [word]);
}

#[test]
fn a_set_up_waits_for_a_known_peer() {
    let mut pair = Pair::new(7, |_| ());
    pair.stop();
    let flow = pair.ask("beta");
    pair.pass(MINUTE, Sign::Heartbeat);
    assert_eq!(pair.net.core(pair.alpha.0).state(flow), FlowState::Connecting);
    pair.resume();
    pair.net.run(SECOND, |net| net.is_open(0, flow));
}

/// A program that polls again answers late, since it has much to do. Whenever that is, a set-up has its whole patience.
#[test]
fn a_set_up_has_its_patience_after_the_wait() {
    for wait in (1_000..3_000).step_by(100) {
        let mut pair = Pair::new(7, |_| ());
        pair.stop();
        let flow = pair.ask("beta");
        pair.pass(wait * MS, Sign::Heartbeat);
        pair.resume();
        pair.net.idle(MS);
        pair.stop();
        let patience = pair.net.core(pair.alpha.0).config().patience;
        pair.net.idle(patience / 2);
        pair.resume();
        pair.net.run(SECOND, |net| net.is_open(0, flow));
    }
}

/// The same with one that this node had never heard of: the transport has seen that something is there.
#[test]
fn a_set_up_with_a_stranger_has_its_patience_after_the_wait() {
    for wait in (1_000..3_000).step_by(100) {
        let mut pair = Pair::new(8, |_| ());
        let flow = pair.ask("gamma");
        for _ in 0..wait / 100 {
            pair.net.core(pair.alpha.0).on_stranger_alive(Address([2, 0, 0, 0, 9, 9]));
            pair.net.idle(100 * MS);
        }
        let config = pair.net.config(2, "gamma");
        let (gamma, _) = pair.net.start(config);
        pair.net.idle(MS);
        let away = pair.net.nodes[gamma].take();
        let patience = pair.net.core(pair.alpha.0).config().patience;
        pair.net.idle(patience / 2);
        pair.net.nodes[gamma] = away;
        pair.net.run(SECOND, |net| net.is_open(0, flow));
    }
}

#[test]
fn a_member_that_does_not_poll_stays_one() {
    let mut pair = Pair::new(8, |_| ());
    pair.net.core(pair.alpha.0).watch_members();
    pair.net.idle(SECOND);
    pair.stop();
    pair.net.events(pair.alpha.0);
    pair.pass(MINUTE, Sign::Heartbeat);
    let left = |event: &Event| matches!(event, Event::Member(_, MemberChange::Left(_)));
    assert!(!pair.net.events(pair.alpha.0).iter().any(left));
    pair.net.idle(2 * SECOND);
    assert!(pair.net.events(pair.alpha.0).iter().any(left), "its process is gone");
}

#[test]
fn signs_of_life_of_an_earlier_run_count_for_nothing() {
    let mut pair = Pair::new(9, |_| ());
    let stale = pair.heartbeat.clone();
    pair.net.restart(pair.beta.0, "beta");
    pair.net.idle(SECOND);
    pair.flow = pair.net.connect(pair.alpha.0, pair.alpha.1, "beta");
    assert_eq!(pair.ended(), Some(ReturnReason::Restarted), "of the earlier run");
    pair.net.nodes[pair.beta.0] = None;
    pair.send(1);
    pair.heartbeat = stale;
    pair.pass(3 * SECOND, Sign::Heartbeat);
    assert_eq!(pair.ended(), Some(ReturnReason::Unreachable));
}

#[test]
fn a_heartbeat_is_the_nodes_own_frame() {
    let mut pair = Pair::new(10, |_| ());
    assert_eq!(pair.heartbeat[..6], Address::BROADCAST.0);
    assert_eq!(pair.heartbeat[6..12], pair.net.core(pair.beta.0).config().address.0);
    assert!(pair.net.now > Time(0));
}
