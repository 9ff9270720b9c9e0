//! The short ways of accepting a frame and a coalesced one, compared with the general one: two networks with the same faults, in which everything else is the
//! same, until the end.

use std::time::Duration;

use crate::harness::{Faults, Net, Wiring};
use am_proto::mutants::{Mutant, activate};
use am_wire::Class;

const MS: Duration = Duration::from_millis(1);

/// What happened: the messages that handlers got, the frames that were received, and the counters.
#[derive(Debug, PartialEq)]
struct Story {
    messages: Vec<(usize, Class, u64, Vec<u8>)>,
    frames: Vec<(usize, Vec<u8>)>,
    counters: [String; 2],
}

/// Requests and their replies on two flows between two nodes, over frames that are lost, overtaken, repeated and damaged. The receiver
/// has little room, reads late, and lacks a handler.
fn play(seed: u64, wiring: Wiring, way: Option<Mutant>) -> Story {
    activate(way);
    let mut net = Net::new(seed);
    net.wiring = wiring;
    let (_, here) = net.node("alpha");
    let mut config = net.config(1, "beta");
    config.receive_frames = 40;
    let (_, there) = net.start(config);
    net.core(1).set_all_handlers(there, false);
    net.core(1).add_handler(there, Class::Request, 3);
    net.log = Some(vec![]);
    let flows = [net.connect(0, here, "beta"), net.connect(0, here, "beta")];
    net.faults = Faults { drop: 0.02, duplicate: 0.03, delay: 0.1 };
    net.damage = 0.02;
    let mut messages = vec![];
    for round in 0..4000u64 {
        let (flow, size) = (flows[round as usize % 2], (round * 7 % 50) as usize);
        let handler = if round % 97 == 0 { 200 } else { 3 };
        _ = net.send_to(0, flow, Class::Request, handler, round, &vec![round as u8; size]);
        if round % 1000 < 500 || round % 5 == 0 {
            let until = net.now + Duration::from_micros(2);
            while net.step(until) {}
        }
        while round % 300 > 100
            && let Some(request) = net.core(1).poll_deliver(there)
        {
            messages.push((1, request.class, request.words().at(0), request.payload().to_vec()));
            _ = net.send(1, request.flow, Class::Reply, request.words().at(0), request.payload());
            net.core(1).release(request.flow, request.class, 1);
        }
        while let Some(reply) = net.extract(0, here) {
            messages.push((0, reply.class, reply.words().at(0), reply.payload().to_vec()));
        }
    }
    net.idle(20 * MS);
    let counters = [0, 1].map(|at| format!("{:?}", net.core(at).counters()));
    Story { messages, frames: net.log.take().unwrap_or_default(), counters }
}

#[test]
fn the_short_way_and_the_general_way_do_the_same() {
    for seed in 0..20 {
        for wiring in [Wiring::Cable, Wiring::Switch] {
            let [short, general] = [None, Some(Mutant::GeneralWay)].map(|way| play(seed, wiring, way));
            assert!(short.messages.len() > 1000 && !short.counters[1].contains("bundles_received: 0"), "{short:?}");
            assert!(short == general, "seed {seed}: {:?} and {:?}", short.counters, general.counters);
        }
    }
}
