//! The node that all others come to.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use am_api::{Endpoint, HandlerId, Node, Request};
use am_ring::Pool;

use crate::visitor::Visitor;
use crate::{NAMES, VISITORS};

/// The load: a number, and bytes that follow from it.
pub(crate) const LOAD: HandlerId = HandlerId(1);
/// Somebody says his number, and hears it again.
pub(crate) const HELLO: HandlerId = HandlerId(2);
/// Longer than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// Nobody who is there is silent for so long, though all turn on one thread, and each word to everybody is a frame to
/// hundreds of places; and who has left unheard is forgotten within [`LONG`].
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(crate) struct Seen {
    /// All below are handled; those above by themselves.
    load: u64,
    early: HashMap<u64, ()>,
    /// Answers to the hub's own greetings, by visitor.
    pub(crate) answers: HashMap<u64, u64>,
}

pub(crate) struct Hub {
    pub(crate) node: Node,
    pub(crate) endpoint: Endpoint<Seen>,
    pub(crate) seen: Seen,
    pool: Pool,
    free: usize,
}

/// What a message of the load carries.
pub(crate) fn content(number: u64) -> Vec<u8> {
    (0..number % 1000).map(|at| (at + number) as u8).collect()
}

impl Seen {
    /// Handled now; must not have been before.
    fn handled(&mut self, number: u64) {
        assert!(number >= self.load && self.early.insert(number, ()).is_none(), "{number} a second time");
        while self.early.remove(&self.load).is_some() {
            self.load += 1;
        }
    }
}

impl Hub {
    pub(crate) fn open(link: &str) -> Hub {
        let transport = am_api::transports::open(link).unwrap_or_else(|error| panic!("{error}"));
        let pool = transport.caps().pool.clone();
        let free = pool.available();
        let node = Node::builder("hub").patience(PATIENCE).open_on(transport).unwrap();
        let mut endpoint = node.endpoint::<Seen>("main").unwrap();
        endpoint.on_request(LOAD, |seen, Request { message, token }| {
            let number = message.word(0);
            assert_eq!(message.payload(), content(number));
            seen.handled(number);
            token.reply(LOAD, &[number], b"").unwrap();
        });
        endpoint.on_request(HELLO, |_, Request { message, token }| token.reply(HELLO, message.words(), b"").unwrap());
        endpoint.on_reply(HELLO, |seen, message| *seen.answers.entry(message.word(0)).or_default() += 1);
        Hub { node, endpoint, seen: Seen::default(), pool, free }
    }

    /// Where it is by sockets, if it is.
    pub(crate) fn place(&self) -> Option<String> {
        self.node.local_address().split('+').find(|place| place.starts_with("udp:")).map(str::to_owned)
    }

    /// Messages of the load that were handled.
    pub(crate) fn load(&self) -> u64 {
        self.seen.load
    }

    pub(crate) fn poll(&mut self) {
        self.endpoint.poll(&mut self.seen);
    }

    pub(crate) fn until(&mut self, what: &str, mut so: impl FnMut(&mut Hub) -> bool) {
        let start = Instant::now();
        while !so(self) {
            self.poll();
            assert!(start.elapsed() < LONG, "still not: {what}\n{}", self.node.counters());
        }
    }

    pub(crate) fn until_with(&mut self, what: &str, visitors: &mut Vec<Visitor>, so: impl Fn(&Vec<Visitor>) -> bool) {
        let start = Instant::now();
        while !so(visitors) {
            visitors.iter_mut().for_each(|visitor| visitor.turn(self));
            self.poll();
            let all = || visitors.iter().map(|visitor| visitor.describe(self)).collect::<String>();
            assert!(start.elapsed() < LONG, "still not: {what}\n{}{}", all(), self.node.counters());
        }
    }

    /// The frames are home, all but those that wait for what arrives next, and tables hold no more than names.
    pub(crate) fn assert_nothing_stays(&mut self) {
        const BLANKS: usize = 4;
        self.until("all frames are home", |hub| hub.pool.available() + BLANKS >= hub.free);
        let counters = self.node.counters();
        for name in
            ["peers_forgotten", "peers_ignored", "beyond_window", "no_frame", "udp_lost_too_long", "shm_nonsense"]
        {
            assert_eq!(counters.get(name), 0, "{name}\n{counters}");
        }
        assert!(self.node.peers().len() <= NAMES + 1, "{} peers", self.node.peers().len());
        // Strangers' places stay until somebody needs the room.
        assert!(counters.get("udp_places") <= VISITORS as u64, "{counters}");
        assert!(self.seen.early.is_empty() && self.seen.answers.values().all(|times| *times > 0));
    }
}
