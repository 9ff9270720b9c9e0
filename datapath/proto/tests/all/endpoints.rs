//! More endpoints than frames: idle ones hold none and little memory, busy ones leave some to the others.

use std::time::Duration;

use allocation_counter::measure;

use crate::harness::{Buf, Net, name};
use am_proto::{Core, EndpointId, FlowState};
use am_wire::Class;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MANY: usize = 10_000;

fn frames_held(core: &Core<Buf>) -> usize {
    let mut count = 0;
    core.frames(&mut |_| count += 1);
    count
}

#[test]
fn idle_endpoints_hold_no_frames_and_little_memory() {
    let mut net = Net::new(1);
    let (_, here) = net.node("alpha");
    let (_, there) = net.node("beta");
    let added = measure(|| {
        for number in 0..MANY {
            net.core(1).add_endpoint(name(&format!("endpoint {number}")), 7).unwrap();
        }
    });
    // The tables grow by doubling.
    assert!(added.bytes_current <= 2 * 256 * MANY as i64, "{} bytes", added.bytes_current);
    let flow = net.connect(0, here, "beta");
    for word in 0..100 {
        net.send(0, flow, Class::Request, word, b"").unwrap();
    }
    net.idle(MS);
    // The first frame comes before the queue has memory, and each of its 62 messages holds it.
    assert_eq!(frames_held(net.core(1)), 63, "of the one that is used");
    assert_eq!((0..).map_while(|_| net.extract(1, there)).count(), 100);
    assert_eq!(frames_held(net.core(1)), 0);
}

/// Endpoints that were used and are idle again have given their memory back.
#[test]
fn endpoints_that_become_idle_give_memory_back() {
    const USED: usize = 200;
    let mut net = Net::new(2);
    let (_, here) = net.node("alpha");
    net.node("beta");
    let names: Vec<_> = (0..USED).map(|number| name(&format!("endpoint {number}"))).collect();
    let all: Vec<EndpointId> = names.iter().map(|&name| net.core(1).add_endpoint(name, 7).unwrap()).collect();
    let now = net.now;
    let flows: Vec<_> =
        names.iter().map(|&to| net.core(0).connect(now, here, (name("beta"), to, 7), true).unwrap()).collect();
    net.run(10 * SECOND, |net| flows.iter().all(|&flow| net.core(0).state(flow) != FlowState::Connecting));
    net.idle(30 * SECOND);
    let used = measure(|| {
        for &flow in &flows {
            net.send(0, flow, Class::Request, 1, b"").unwrap();
        }
        net.idle(MS);
        all.iter().for_each(|&endpoint| assert!(net.extract(1, endpoint).is_some()));
        net.idle(30 * SECOND);
    });
    assert!(used.bytes_max > 1 << 20, "they had memory: {}", used.bytes_max);
    assert!(used.bytes_current < 64 << 10, "{} bytes", used.bytes_current);
}

/// An endpoint that is not polled fills a part of the node's frames. The rest is left to the others, and what found no
/// frame arrives later.
#[test]
fn an_endpoint_that_is_not_polled_leaves_frames_to_others() {
    let mut net = Net::new(3);
    let (_, here) = net.node("alpha");
    let mut config = net.config(1, "beta");
    config.receive_frames = 64;
    let (_, there) = net.start(config);
    let quick = net.core(1).add_endpoint(name("quick"), 7).unwrap();
    let slow = net.connect_many(0, here, "beta", 30);
    let now = net.now;
    let to_quick = net.core(0).connect(now, here, (name("beta"), name("quick"), 7), true).unwrap();
    net.run(SECOND, |net| net.is_open(0, to_quick));
    let mut sent = 0;
    for &flow in &slow {
        while net.send(0, flow, Class::Request, sent, b"").is_ok() {
            sent += 1;
        }
    }
    net.idle(5 * MS);
    assert!(net.core(1).counters().endpoint_faults > 0 && frames_held(net.core(1)) < 48);
    for word in 0..100 {
        net.run(SECOND, |net| net.send(0, to_quick, Class::Request, word, b"").is_ok());
        net.run(20 * MS, |net| net.extract(1, quick).is_some());
    }
    let mut arrived = 0;
    let until = net.now + 10 * SECOND;
    while arrived < sent {
        arrived += u64::from(net.extract(1, there).is_some());
        assert!(net.step(until), "{arrived} of {sent}");
    }
    assert_eq!(net.core(0).counters().returned, 0);
}
