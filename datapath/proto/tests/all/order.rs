//! Handlers get the messages of a flow in the order in which they were sent, requests and replies each in their own
//! order.

use std::time::Duration;

use crate::harness::{Faults, Net, name};
use am_proto::{EndpointId, FlowId, FlowState};
use am_wire::Class;

const MS: Duration = Duration::from_millis(1);

/// Two nodes, the flow between them, and the endpoints of both.
fn pair(net: &mut Net, receive_frames: usize) -> (FlowId, EndpointId, EndpointId) {
    let (_, here) = net.node("alpha");
    let mut config = net.config(1, "beta");
    config.receive_frames = receive_frames;
    let (_, there) = net.start(config);
    (net.connect(0, here, "beta"), here, there)
}

fn words(net: &mut Net, at: usize, endpoint: EndpointId) -> Vec<u64> {
    std::iter::from_fn(|| net.extract(at, endpoint)).map(|got| got.words().at(0)).collect()
}

/// The first of these messages is lost, and no time-out has noticed it yet.
fn send_but_the_first(net: &mut Net, flow: FlowId, count: u64) {
    net.faults.drop = 1.0;
    net.send(0, flow, Class::Request, 0, b"").unwrap();
    net.drain();
    net.faults.drop = 0.0;
    (1..count).for_each(|word| net.send(0, flow, Class::Request, word, b"").unwrap());
    let latency = net.latency;
    net.idle(latency);
}

#[test]
fn loss_duplicates_and_delays_change_no_order() {
    const COUNT: u64 = 3000;
    for seed in 0..4 {
        let mut net = Net::new(seed);
        let (flow, here, there) = pair(&mut net, 1024);
        net.faults = Faults { drop: 0.05, duplicate: 0.05, delay: 0.3 };
        let (mut next, mut asked, mut answered) = (0, Vec::new(), Vec::new());
        net.run(60_000 * MS, |net| {
            while next < COUNT && net.send(0, flow, Class::Request, next, &[0; 100][..next as usize % 100]).is_ok() {
                next += 1;
            }
            while let Some(request) = net.core(1).poll_deliver(there) {
                asked.push(request.words().at(0));
                net.send(1, request.flow, Class::Reply, request.words().at(0), b"").unwrap();
                net.core(1).release(request.flow, Class::Request, 1);
            }
            answered.extend(words(net, 0, here));
            answered.len() as u64 == COUNT
        });
        let in_order: Vec<u64> = (0..COUNT).collect();
        assert!(asked == in_order && answered == in_order, "seed {seed}");
    }
}

#[test]
fn rejects_change_no_order() {
    let mut net = Net::new(5);
    let (flow, here, there) = pair(&mut net, 8);
    let other = net.connect(0, here, "beta");
    let (mut next, mut got) = ([0; 2], [const { Vec::new() }; 2]);
    net.run(60_000 * MS, |net| {
        for (at, flow) in [flow, other].into_iter().enumerate() {
            while next[at] < 500 && net.send(0, flow, Class::Request, (at as u64) << 32 | next[at], b"").is_ok() {
                next[at] += 1;
            }
        }
        if let Some(message) = net.extract(1, there) {
            let word = message.words().at(0);
            got[(word >> 32) as usize].push(word & 0xffff_ffff);
        }
        got.iter().all(|got| got.len() == 500)
    });
    assert!(got.iter().all(|got| got.is_sorted()));
}

#[test]
fn a_message_waits_for_those_before_it_unless_the_flow_has_no_order() {
    let mut net = Net::new(6);
    let (flow, here, there) = pair(&mut net, 1024);
    send_but_the_first(&mut net, flow, 3);
    assert_eq!(words(&mut net, 1, there), []);
    net.idle(100 * MS);
    assert_eq!(words(&mut net, 1, there), [0, 1, 2]);
    let now = net.now;
    let loose = net.core(0).connect(now, here, (name("beta"), name("app"), 7), false).unwrap();
    net.run(100 * MS, |net| net.core(0).state(loose) != FlowState::Connecting);
    send_but_the_first(&mut net, loose, 3);
    assert_eq!(words(&mut net, 1, there), [1, 2]);
    net.idle(100 * MS);
    assert_eq!(words(&mut net, 1, there), [0]);
}

/// Their sender may know that they arrived: they do not come back to it.
#[test]
fn held_messages_are_handled_in_order_when_the_flow_ends() {
    let mut net = Net::new(7);
    let (flow, _, there) = pair(&mut net, 1024);
    send_but_the_first(&mut net, flow, 5);
    net.core(0).close(flow);
    let latency = net.latency;
    net.idle(latency);
    assert_eq!(words(&mut net, 1, there), [1, 2, 3, 4]);
}

/// Held messages use at most a quarter of the room. So the missing message finds room.
#[test]
fn held_messages_do_not_fill_the_room() {
    let mut net = Net::new(8);
    let (flow, here, there) = pair(&mut net, 16);
    let others: Vec<FlowId> = (0..8).map(|_| net.connect(0, here, "beta")).collect();
    for flow in [&[flow], &others[..]].concat() {
        send_but_the_first(&mut net, flow, 2);
    }
    let mut got = Vec::new();
    net.run(10_000 * MS, |net| {
        got.extend(words(net, 1, there));
        got.len() == 18
    });
    assert!(got.chunks(2).filter(|pair| pair == &[0, 1]).count() >= 4, "{got:?}");
}
