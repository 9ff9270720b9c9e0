//! Two nodes with two ways each, of transports that really die: what is behind
//! them is closed, and opened again under the same name.

mod transport;

use std::time::Duration;

use am_api::{Connection, HandlerId, Node, Request, Transport};
use am_multipath::Multipath;
use am_wire::EtherType;
use transport::{Hand, Mortal};

use crate::common::{Side, connect, until};

const TELL: HandlerId = HandlerId(0);
/// Messages between two events.
const MANY: u64 = 2_000;

/// The payload of a message: some are longer than a frame.
fn payload(number: u64) -> Vec<u8> {
    vec![number as u8; if number.is_multiple_of(50) { 100_000 } else { 700 }]
}

/// How often beta has got each message.
type Seen = Vec<u8>;

/// Alpha and beta; the first way of each is the one that dies.
pub struct Pair {
    alpha: Side<Seen>,
    beta: Side<Seen>,
    hands: [Hand; 2],
    to: Connection,
    sent: u64,
}

/// Somebody can be introduced who is there.
fn place(name: &str) -> Option<&str> {
    let is_socket = name.starts_with("udp:") || name.starts_with("tcp:");
    name.split(',').next().filter(|_| is_socket)
}

fn node(name: &str, [first, second]: [&str; 2]) -> (Side<Seen>, Hand) {
    let (way, hand) = Mortal::open(first);
    let second = am_api::transports::open(second).unwrap_or_else(|error| panic!("{second}: {error}"));
    let ways: Vec<Box<dyn Transport>> = vec![Box::new(way), second];
    let both = Multipath::new(ways, EtherType::DEFAULT).expect("two ways");
    // A way that is whole again shows it by beacons.
    (Side::open(Node::builder(name).beacon(Duration::from_millis(50)), Box::new(both)), hand)
}

impl Pair {
    /// The names of alpha's ways, and of beta's.
    pub fn open(alpha: [&str; 2], beta: [&str; 2]) -> Pair {
        let there = beta.map(place);
        let ((mut alpha, near), (mut beta, far)) = (node("alpha", alpha), node("beta", beta));
        there.into_iter().flatten().for_each(|place| alpha.node.add_peer_address(place).unwrap());
        alpha.endpoint.on_returned(|_, back| panic!("came back: {:?}", back.reason));
        beta.endpoint.on_request(TELL, |seen, Request { message, .. }| {
            let number = message.word(0);
            assert!(message.payload() == payload(number));
            seen.resize(seen.len().max(number as usize + 1), 0);
            seen[number as usize] += 1;
        });
        let to = connect(&mut alpha, &mut beta);
        Pair { alpha, beta, hands: [near, far], to, sent: 0 }
    }

    /// So many more messages, as fast as credit comes.
    fn tell(&mut self, count: u64) {
        let Pair { alpha, beta, to, sent, .. } = self;
        let end = *sent + count;
        until(alpha, beta, "notified", |alpha, _| {
            while *sent < end && alpha.endpoint.try_request(*to, TELL, &[*sent], &payload(*sent)).is_ok() {
                *sent += 1;
            }
            *sent == end
        });
    }

    /// All of them arrive, once.
    fn all_arrive(&mut self) {
        let sent = self.sent as usize;
        until(&mut self.alpha, &mut self.beta, "arrived", |_, beta| {
            beta.state.len() == sent && !beta.state.contains(&0)
        });
        assert!(self.beta.state.iter().all(|times| *times == 1));
    }

    fn until_way(&mut self, what: &str, is_it: impl Fn(&str) -> bool) {
        let to = self.to;
        until(&mut self.alpha, &mut self.beta, what, |alpha, _| {
            alpha.endpoint.describe(to).and_then(|how| how.path).is_some_and(|way| is_it(&way))
        });
    }

    /// The first way dies at this end in the middle of a flood, and comes back: `why` is what alpha
    /// says of it meanwhile. With some transports one has to `wait` until the other end has heard of it.
    pub fn dies_and_comes_back(&mut self, end: usize, wait: Option<fn()>, why: &str) {
        let first = if end == 0 { "alpha's" } else { "beta's" };
        self.until_way("by the first", |way| way.contains("the best of 2"));
        self.tell(MANY);
        self.hands[end].set(false);
        if let Some(wait) = wait {
            [&mut self.alpha, &mut self.beta][end].poll();
            wait();
        }
        self.tell(MANY);
        self.all_arrive();
        self.until_way(&format!("says why, when {first} is gone"), |way| way.contains("(not ") && way.contains(why));
        self.hands[end].set(true);
        self.until_way(&format!("back, when {first} is"), |way| way.contains("the best of 2"));
        self.tell(MANY);
        self.all_arrive();
    }
}
