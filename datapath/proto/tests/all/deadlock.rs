//! Random graphs of nodes with hardly any room, that request, forward and reply in any pattern: everything drains.
//! `docs/deadlock.md` has the argument.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::harness::{Faults, Net};
use am_proto::{Delivery, EndpointId, FlowId, ReturnReason};
use am_wire::Class;

/// Handlers: one that exists at every node, and one that exists at none.
const HERE: u8 = 3;
const NOWHERE: u8 = 4;

/// What the program of one node has still to do.
struct Program {
    endpoint: EndpointId,
    /// Its connections to other nodes.
    flows: Vec<FlowId>,
    /// Requests to send: how often each is forwarded.
    to_send: Vec<u64>,
    /// Requests whose replies are not sent yet.
    owed: Vec<FlowId>,
}

struct Graph {
    net: Net,
    random: SmallRng,
    programs: Vec<Program>,
    /// Requests sent, handled and returned; replies sent and received.
    counts: [u64; 5],
}

impl Graph {
    fn new(seed: u64) -> Graph {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut net = Net::new(seed);
        let count = random.random_range(2..7);
        let mut programs = Vec::new();
        for at in 0..count {
            let mut config = net.config(at, &format!("node {at}"));
            config.receive_frames = random.random_range(2..9);
            config.send_frames = random.random_range(2..6);
            config.window = random.random_range(1..5);
            let (_, endpoint) = net.start(config);
            net.core(at).set_all_handlers(endpoint, false);
            Class::ALL.iter().for_each(|&class| net.core(at).add_handler(endpoint, class, HERE));
            programs.push(Program { endpoint, flows: vec![], to_send: vec![], owed: vec![] });
        }
        for (at, program) in programs.iter_mut().enumerate() {
            // A ring, so that each node is in a cycle, and more at random.
            for to in (0..count).filter(|&to| to != at) {
                if to == (at + 1) % count || random.random_bool(0.5) {
                    let flow = net.connect(at, program.endpoint, &format!("node {to}"));
                    program.flows.push(flow);
                }
            }
            program.to_send = (0..40).map(|_| random.random_range(0..4)).collect();
        }
        if seed.is_multiple_of(3) {
            net.faults = Faults { drop: 0.05, duplicate: 0.05, delay: 0.1 };
        }
        Graph { net, random, programs, counts: [0; 5] }
    }

    /// Send what is possible now, on any flow.
    fn send(&mut self, at: usize) {
        let program = &mut self.programs[at];
        while let Some(&hops) = program.to_send.last() {
            let flow = program.flows[self.random.random_range(0..program.flows.len())];
            let handler = if self.random.random_bool(0.1) { NOWHERE } else { HERE };
            if self.net.send_to(at, flow, Class::Request, handler, hops, b"").is_err() {
                break;
            }
            program.to_send.pop();
            self.counts[0] += 1;
        }
    }

    /// Reply to some requests. A reply needs nothing that another node might hold back.
    fn reply(&mut self, at: usize) {
        let keep = if self.random.random_bool(0.5) { 0 } else { 1 };
        while self.programs[at].owed.len() > keep {
            let next = self.random.random_range(0..self.programs[at].owed.len());
            let flow = self.programs[at].owed.swap_remove(next);
            self.net.send_to(at, flow, Class::Reply, HERE, 0, b"").expect("a reply can always be sent");
            self.counts[3] += 1;
        }
    }

    fn handle(&mut self, at: usize) {
        while let Some(returned) = self.net.core(at).poll_returned(self.programs[at].endpoint) {
            assert_eq!((returned.reason, returned.message.handler), (ReturnReason::NoHandler, NOWHERE));
            self.counts[2] += 1;
        }
        for _ in 0..self.random.random_range(0..4) {
            let Some(delivery) = self.net.core(at).poll_deliver(self.programs[at].endpoint) else { break };
            let Delivery { flow, class, .. } = delivery;
            self.net.core(at).release(flow, class, 1);
            if class == Class::Reply {
                self.counts[4] += 1;
                continue;
            }
            self.counts[1] += 1;
            let hops = delivery.words().at(0);
            self.programs[at].to_send.extend(hops.checked_sub(1));
            self.programs[at].owed.push(flow);
        }
    }

    fn is_done(&mut self) -> bool {
        let [sent, handled, returned, replies, received] = self.counts;
        let is_idle = self.programs.iter().all(|program| program.to_send.is_empty() && program.owed.is_empty());
        is_idle && sent == handled + returned && replies == handled && received == replies
    }
}

#[test]
fn any_pattern_of_requests_and_replies_drains() {
    for seed in 0..150 {
        let mut graph = Graph::new(seed);
        let until = graph.net.now + Duration::from_secs(60);
        while !graph.is_done() {
            for at in 0..graph.programs.len() {
                graph.send(at);
                graph.handle(at);
                graph.reply(at);
            }
            graph.net.drain();
            assert!(graph.net.step(until), "seed {seed}: nothing moves any more: {:?}", graph.counts);
        }
        graph.net.faults = Faults::default();
        graph.net.idle(Duration::from_secs(1));
        for at in 0..graph.programs.len() {
            let core = graph.net.core(at);
            assert_eq!(
                (core.kept_messages(), core.replies_owed(), core.has_deliveries()),
                (0, 0, false),
                "seed {seed}"
            );
        }
    }
}
