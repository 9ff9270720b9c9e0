//! Ten thousand connections on which nothing happens: their memory at both nodes, everything included, and what the ones
//! that are used notice of them.

use std::time::Duration;

use crate::common::{Side, in_memory, plain};
use am_api::{Clock, Connection, HandlerId, Incarnation, ManualClock, Request};

const COUNT: usize = 10_000;
const ECHO: HandlerId = HandlerId(0);
/// What an allocation costs beside its bytes, with the allocators of the usual C libraries, at most.
const ALLOCATION: i64 = 16;

struct Pair {
    hand: ManualClock,
    alpha: Side<u64>,
    beta: Side<()>,
    all: Vec<Connection>,
}

impl Pair {
    fn open(room: usize) -> Pair {
        let (clock, hand) = Clock::manual();
        let builder = |name| plain(name).clock(clock.clone(), Incarnation(1));
        let (left, right) = in_memory();
        let mut alpha = Side::open(builder("alpha"), left);
        let mut beta = Side::open(builder("beta"), right);
        alpha.endpoint.on_reply(ECHO, |count, _| *count += 1);
        beta.endpoint.on_request(ECHO, |(), Request { message, token }| {
            token.reply(ECHO, message.words(), message.payload()).expect("a reply");
        });
        Pair { hand, alpha, beta, all: Vec::with_capacity(room) }
    }

    fn turn(&mut self, time: Duration) {
        self.hand.advance(time);
        self.alpha.poll();
        self.beta.poll();
    }

    fn connect(&mut self, count: usize) {
        for _ in 0..count {
            let to = self.alpha.endpoint.connect("beta", "main").expect("an id is left");
            while !self.alpha.endpoint.is_open(to) {
                self.turn(Duration::from_micros(20));
            }
            self.all.push(to);
        }
    }

    fn idle(&mut self, seconds: u32) {
        (0..2000 * seconds).for_each(|_| self.turn(Duration::from_micros(500)));
    }

    fn ask(&mut self, to: Connection) {
        let before = self.alpha.state;
        self.alpha.endpoint.try_request(to, ECHO, &[7], b"still there?").expect("a credit");
        for _ in 0..1000 {
            if self.alpha.state > before {
                return;
            }
            self.turn(Duration::from_micros(5));
        }
        panic!("no reply");
    }
}

#[test]
fn each_costs_at_most_256_bytes_at_each_node_used_before_or_not() {
    for is_used in [false, true] {
        let mut pair = Pair::open(COUNT + 100);
        let add = |pair: &mut Pair, count: usize| {
            let first = pair.all.len();
            pair.connect(count);
            for at in (first..first + count).filter(|_| is_used) {
                pair.ask(pair.all[at]);
            }
            pair.idle(13);
        };
        // Memory that the connections use in turn is allocated by now.
        add(&mut pair, 100);
        let used = allocation_counter::measure(|| add(&mut pair, COUNT));
        let each = (used.bytes_current + ALLOCATION * used.count_current) / (2 * COUNT as i64);
        println!("{each} bytes for a connection at each node, used before: {is_used}");
        assert!((100..=256).contains(&each), "{each} bytes, used before: {is_used}");
        // All of them work as before.
        for at in (0..pair.all.len()).step_by(7) {
            pair.ask(pair.all[at]);
        }
        pair.idle(60);
        assert!(pair.all.iter().all(|&to| pair.alpha.endpoint.is_open(to)));
        let counters = pair.alpha.node.counters();
        assert_eq!((counters.get("timeouts"), counters.get("returned")), (0, 0), "{counters}");
    }
}
