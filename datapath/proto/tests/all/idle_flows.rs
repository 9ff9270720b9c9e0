//! Flows that are quiet for a while, and then used again, as if they had never been quiet.

use std::collections::HashMap;
use std::time::Duration;

use crate::harness::{Faults, Loss, Net, name};
use am_proto::{EndpointId, Event, FlowId, FlowState, ReturnReason};
use am_wire::Class;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const SECOND: Duration = Duration::from_secs(1);
/// After this time without a message a flow is idle.
const QUIET: Duration = Duration::from_secs(12);

fn accepted(net: &mut Net, at: usize) -> Vec<FlowId> {
    let events = net.events(at).into_iter();
    events.filter_map(|event| if let Event::Accepted(_, flow, _) = event { Some(flow) } else { None }).collect()
}

fn ends(net: &mut Net, at: usize) -> Vec<(FlowId, ReturnReason)> {
    let events = net.events(at).into_iter();
    events
        .filter_map(|event| if let Event::Ended(_, flow, end) = event { Some((flow, end.reason)) } else { None })
        .collect()
}

/// A node, its endpoint, and its flows.
type Side = (usize, EndpointId, Vec<FlowId>);

/// Some of the flows, of either side, send some requests. All are handled once and in order. `sent` has the next word of
/// each flow.
fn exchange(net: &mut Net, random: &mut SmallRng, sides: &[Side; 2], sent: &mut [[u64; 6]; 2]) {
    let (mut expected, mut handled, mut last) = ([vec![], vec![]], [vec![], vec![]], HashMap::new());
    for _ in 0..random.random_range(1..4) {
        let (side, at) = (random.random_range(0..2), random.random_range(0..6));
        let (from, _, flows) = &sides[side];
        for _ in 0..random.random_range(1..40) {
            if net.send(*from, flows[at], Class::Request, sent[side][at], b"kept").is_ok() {
                expected[1 - side].push(sent[side][at]);
                sent[side][at] += 1;
            }
        }
    }
    net.run(10 * SECOND, |net| {
        for (side, (at, endpoint, _)) in sides.iter().enumerate() {
            while let Some(message) = net.extract(*at, *endpoint) {
                let word = message.words().at(0);
                let before = last.insert((side, message.flow), word);
                assert!(before.is_none_or(|before| before + 1 == word), "{word} after {before:?}");
                handled[side].push(word);
            }
        }
        (0..2).all(|side| handled[side].len() == expected[side].len())
    });
    handled.iter_mut().chain(&mut expected).for_each(|words| words.sort_unstable());
    assert_eq!(handled, expected);
}

/// Bursts in both directions and pauses, lost and late frames. At the end there is credit left.
#[test]
fn what_is_sent_between_long_pauses_arrives_once_and_in_order() {
    for seed in 0..12 {
        let (mut net, mut random) = (Net::new(seed), SmallRng::seed_from_u64(seed));
        let (alpha, here) = net.node("alpha");
        let (beta, there) = net.node("beta");
        let flows = net.connect_many(alpha, here, "beta", 6);
        net.idle(SECOND);
        let sides = [(alpha, here, flows), (beta, there, accepted(&mut net, beta))];
        (net.faults.drop, net.faults.duplicate, net.faults.delay) = (0.1, 0.05, 0.2);
        let mut sent = [[0; 6]; 2];
        for _ in 0..12 {
            exchange(&mut net, &mut random, &sides, &mut sent);
            net.idle(random.random_range(0..20) * SECOND);
        }
        net.faults = Faults::default();
        net.idle(3 * QUIET);
        for (at, _, flows) in &sides {
            for &flow in flows {
                assert!(net.is_open(*at, flow) && net.core(*at).credit(flow, Class::Request) > 0, "seed {seed}");
            }
        }
    }
}

#[test]
fn idle_flows_are_seen_closed_and_ended_like_others() {
    let mut net = Net::new(1);
    let (alpha, here) = net.node("alpha");
    let (beta, _) = net.node("beta");
    let (gamma, theirs) = net.node("gamma");
    let flows = net.connect_many(alpha, here, "beta", 4);
    let other = net.connect(gamma, theirs, "alpha");
    let credits: Vec<usize> = flows.iter().map(|&flow| net.core(alpha).credit(flow, Class::Request)).collect();
    net.idle(QUIET);
    let accepted = accepted(&mut net, beta);
    net.events(alpha);
    for (&flow, credit) in flows.iter().zip(credits) {
        assert!(net.is_open(alpha, flow));
        assert_eq!(net.core(alpha).peer_names(flow), Some((name("beta"), name("app"))));
        assert_eq!(net.core(alpha).credit(flow, Class::Request), credit);
        assert!(!net.core(alpha).has_unacknowledged(flow) && net.core(alpha).address(flow).is_some());
    }
    assert_eq!(net.core(alpha).connection_count(), 5);
    net.core(alpha).close(flows[0]);
    net.idle(SECOND);
    assert_eq!(ends(&mut net, beta), [(accepted[0], ReturnReason::Closed)]);
    assert_eq!(net.core(alpha).connection_count(), 4);
    net.idle(QUIET);
    // The peer's next run.
    net.restart(beta, "beta");
    net.idle(SECOND);
    let mut ended = ends(&mut net, alpha);
    ended.sort_by_key(|(flow, _)| flow.flow().id());
    assert_eq!(ended, flows[1..].iter().map(|&flow| (flow, ReturnReason::Restarted)).collect::<Vec<_>>());
    assert!(net.is_open(gamma, other));
    // Nobody answers any more.
    net.nodes[alpha] = None;
    net.idle(30 * SECOND);
    assert_eq!(net.core(gamma).state(other), FlowState::Ended(ReturnReason::Unreachable));
}

/// Neither side has anything to send, and one of them does not know the flow any more.
#[test]
fn an_idle_flow_that_the_peer_has_forgotten_ends() {
    let mut net = Net::new(2);
    let (alpha, here) = net.node("alpha");
    let (beta, _) = net.node("beta");
    let flows = net.connect_many(alpha, here, "beta", 3);
    net.idle(QUIET);
    let accepted = accepted(&mut net, beta);
    net.loss = Loss::All;
    net.core(beta).close(accepted[1]);
    net.idle(SECOND);
    net.loss = Loss::None;
    net.idle(2 * QUIET);
    assert_eq!(net.core(alpha).state(flows[1]), FlowState::Ended(ReturnReason::Closed));
    assert!(net.is_open(alpha, flows[0]) && net.is_open(alpha, flows[2]));
}

/// A keepalive and its answer leave both sides idle, and are few, however many flows lead to one peer.
#[test]
fn many_idle_flows_with_one_peer_cost_few_frames_and_no_memory() {
    let mut net = Net::new(3);
    let (alpha, here) = net.node("alpha");
    net.node("beta");
    for _ in 0..10 {
        net.connect_many(alpha, here, "beta", 200);
    }
    (0..6).for_each(|_| net.idle(QUIET));
    let (before, mut frames) = (net.sent, 0);
    let memory = allocation_counter::measure(|| {
        net.idle(20 * SECOND);
        frames = net.sent - before;
    });
    // Four rounds of each side, 512 flows in each; every question has an answer.
    assert!((500..=6 * 2 * 2 * 520).contains(&frames), "{frames} frames");
    assert!(memory.bytes_current < 400_000, "{} bytes: flows became active", memory.bytes_current);
}

/// Credits of idle flows take none from an active one, though all together are more than the node has frames.
#[test]
fn an_active_flow_beside_many_idle_ones_gets_its_share() {
    let mut net = Net::new(4);
    let (alpha, here) = net.node("alpha");
    let (beta, there) = net.node("beta");
    let flows = (0..5).flat_map(|_| net.connect_many(alpha, here, "beta", 200)).collect::<Vec<_>>();
    (0..4).for_each(|_| net.idle(QUIET));
    let (flow, mut sent) = (flows[500], 0);
    for _ in 0..200 {
        while net.send(alpha, flow, Class::Request, sent, b"").is_ok() {
            sent += 1;
        }
        net.idle(Duration::from_millis(1));
        while net.extract(beta, there).is_some() {}
    }
    let window = net.config(alpha, "alpha").window;
    assert!(net.core(alpha).credit(flow, Class::Request) > usize::from(window) / 2, "{sent} were sent");
}
