//! Nodes with several transports: which way is taken, and what happens when it
//! dies. On a clock that is moved by hand.

use std::time::Duration;

use crate::common::Side;
use crate::cut::{Cut, State, Switch};
use am_api::{Clock, Connection, HandlerId, Incarnation, ManualClock, Node, PeerAddressError, Problem, Request};
use am_multipath::Multipath;
use am_transport::{Transport, loopback};
use am_wire::EtherType;

const TELL: HandlerId = HandlerId(0);
const TURN: Duration = Duration::from_micros(5);

/// Which messages beta has got, how often; and alpha back.
type Seen = Vec<u8>;

struct Pair {
    hand: ManualClock,
    alpha: Side<Seen>,
    beta: Side<Seen>,
    /// Of alpha's ends of the ways, then of beta's.
    switches: [Vec<Switch>; 2],
    sent: u64,
}

/// Alpha has all the wires, beta the first `of_beta` of them.
fn pair(names: &[&str], of_beta: usize) -> Pair {
    pair_with(names, of_beta, Duration::from_millis(200))
}

fn pair_with(names: &[&str], of_beta: usize, beacon: Duration) -> Pair {
    let (clock, hand): (Clock, ManualClock) = Clock::manual();
    let mut ends: [Vec<Box<dyn Transport>>; 2] = [vec![], vec![]];
    let mut switches = [vec![], vec![]];
    for name in names {
        for (side, plug) in loopback::pair().into_iter().enumerate() {
            let (cut, switch) = Cut::new(name, Box::new(plug.open().expect("memory")));
            ends[side].push(Box::new(cut));
            switches[side].push(switch);
        }
    }
    ends[1].truncate(of_beta);
    let [alpha, beta] = ends.map(|mut ways| match ways.len() {
        // A node with one transport knows nothing of ways.
        1 => ways.remove(0),
        _ => Box::new(Multipath::new(ways, EtherType::DEFAULT).expect("ways")) as Box<dyn Transport>,
    });
    let node = |name| Node::builder(name).beacon(beacon).clock(clock.clone(), Incarnation(1));
    let (alpha, mut beta) = (Side::open(node("alpha"), alpha), Side::<Seen>::open(node("beta"), beta));
    beta.endpoint.on_request(TELL, |seen, Request { message, .. }| {
        let number = message.word(0) as usize;
        seen.resize(seen.len().max(number + 1), 0);
        seen[number] += 1;
    });
    let mut pair = Pair { hand, alpha, beta, switches, sent: 0 };
    pair.alpha.endpoint.on_returned(|_, returned| panic!("came back: {:?}", returned.reason));
    pair
}

impl Pair {
    fn turn(&mut self) {
        self.alpha.poll();
        self.beta.poll();
        self.hand.advance(TURN);
    }

    fn until(&mut self, what: &str, mut so: impl FnMut(&mut Pair) -> bool) {
        for _ in 0..4_000_000 {
            if so(self) {
                return;
            }
            self.turn();
        }
        panic!("never: {what}\n{}{}", self.alpha.node.counters(), self.beta.node.counters());
    }

    fn connect(&mut self) -> Connection {
        let to = self.alpha.endpoint.connect("beta", "main").expect("asked");
        self.until("open", |pair| pair.alpha.endpoint.is_open(to));
        to
    }

    /// So many more messages, as fast as credit comes; each must arrive once.
    fn tell(&mut self, to: Connection, count: u64) {
        let until = self.sent + count;
        self.until("told", |pair| {
            while pair.sent < until && pair.alpha.endpoint.try_request(to, TELL, &[pair.sent], &[7; 300]).is_ok() {
                pair.sent += 1;
            }
            pair.sent == until
        });
    }

    fn all_arrived_once(&mut self) {
        let sent = self.sent as usize;
        self.until("arrived", |pair| pair.beta.state.len() == sent && !pair.beta.state.contains(&0));
        assert!(self.beta.state.iter().all(|&times| times == 1));
    }

    fn way(&self, to: Connection) -> String {
        self.alpha.endpoint.describe(to).and_then(|description| description.path).expect("several ways")
    }
}

#[test]
fn the_best_that_both_have_is_taken_and_said() {
    let mut both = pair(&["shm:lab", "udp:1"], 2);
    let to = both.connect();
    both.until("both known", |pair| pair.way(to).contains("of 2"));
    assert_eq!(both.way(to), "shm:lab (the best of 2 that both have)");
    both.tell(to, 1000);
    both.all_arrived_once();

    let mut one = pair(&["shm:lab", "udp:1"], 1);
    let to = one.connect();
    assert_eq!(one.way(to), "shm:lab (the only one that both have)");
    let description = one.alpha.endpoint.describe(to).expect("open").to_string();
    assert!(description.starts_with("beta/main by shm:lab (the only one"), "{description}");
    one.tell(to, 1000);
    one.all_arrived_once();
}

#[test]
fn when_a_way_dies_the_next_is_taken_and_nothing_is_lost_or_doubled() {
    for state in [State::Broken, State::Silent, State::Full] {
        for side in [0, 1] {
            let mut pair = pair(&["shm:lab", "udp:1"], 2);
            let to = pair.connect();
            pair.until("both known", |pair| pair.way(to).contains("of 2"));
            pair.tell(to, 2000);
            pair.switches[side][0].set(state);
            // A way that is full is told by the time that passes, which no hand moves.
            if state == State::Full {
                pair.tell(to, 1);
                pair.turn();
                std::thread::sleep(am_multipath::STUCK_AFTER + Duration::from_millis(5));
            }
            pair.tell(to, 2000);
            pair.all_arrived_once();
            let way = pair.way(to);
            if side == 0 {
                assert!(way.starts_with("udp:1 (not shm:lab: "), "{state:?}: {way}");
            }
        }
    }
}

/// As by TCP, whose connection takes a moment, while the first beacons leave at once.
#[test]
fn a_way_of_which_no_beacon_has_come_yet_is_found_when_the_other_dies() {
    for state in [State::Broken, State::Silent] {
        for side in [0, 1] {
            let mut pair = pair_with(&["udp:1", "tcp:1"], 2, Duration::from_secs(60));
            pair.switches.iter().for_each(|ways| ways[1].set(State::Silent));
            let to = pair.connect();
            pair.switches.iter().for_each(|ways| ways[1].set(State::Whole));
            assert_eq!(pair.way(to), "udp:1 (the only one that both have)");
            pair.tell(to, 1000);
            pair.switches[side][0].set(state);
            pair.tell(to, 1000);
            pair.all_arrived_once();
        }
    }
}

#[test]
fn a_way_that_is_whole_again_is_taken_again() {
    for state in [State::Broken, State::Silent, State::Full] {
        let mut pair = pair(&["shm:lab", "udp:1"], 2);
        let to = pair.connect();
        pair.until("both known", |pair| pair.way(to).contains("of 2"));
        for _ in 0..2 {
            pair.tell(to, 500);
            pair.switches[0][0].set(state);
            pair.tell(to, 500);
            pair.switches[0][0].set(State::Whole);
            pair.until("back", |pair| pair.way(to).starts_with("shm:lab (the best"));
        }
        pair.all_arrived_once();
        // There and back, but for the last way back, which nothing has taken.
        assert!(pair.alpha.counter("paths_changed") >= 3, "{}", pair.alpha.node.counters());
    }
}

#[test]
fn a_way_may_be_dead_from_the_start() {
    let mut pair = pair(&["shm:lab", "xdp:eth1", "udp:1"], 3);
    pair.switches[0][0].set(State::Silent);
    pair.switches[1][1].set(State::Broken);
    let to = pair.connect();
    pair.tell(to, 2000);
    pair.all_arrived_once();
}

#[test]
fn all_ways_dead_is_a_dead_peer_and_says_so() {
    let mut pair = pair(&["shm:lab", "udp:1"], 2);
    let to = pair.connect();
    pair.alpha.endpoint.on_returned(|back, returned| back.push(returned.message.word(0) as u8));
    pair.switches[0].iter().for_each(|switch| switch.set(State::Broken));
    (0..10).for_each(|number| pair.alpha.endpoint.try_request(to, TELL, &[number], b"").expect("credit"));
    pair.until("returned", |pair| pair.alpha.state.len() == 10);
    let problem = Problem::Link("shm:lab: it was cut; udp:1: it was cut".to_owned());
    assert_eq!(pair.alpha.node.health(), Err(problem));
}

#[test]
fn a_place_is_introduced_where_its_kind_is() {
    let pair = pair(&["shm:lab", "udp:1"], 2);
    let node = &pair.alpha.node;
    assert!(
        matches!(node.add_peer_address("udp:2"), Err(PeerAddressError::Needless { .. })),
        "a wire in memory reaches all"
    );
    let error = node.add_peer_address("tcp:127.0.0.1:9").unwrap_err();
    assert!(matches!(error, PeerAddressError::NoPlace { .. }), "{error}");
    assert!(node.add_peer_address("nonsense?").is_err() && node.remove_peer_address("tcp:1").is_err());
    assert_eq!(node.local_address(), "shm:lab+udp:1");
}

#[test]
fn a_peer_that_is_removed_hears_it_and_can_come_back() {
    let mut pair = pair(&["shm:lab", "udp:1"], 2);
    let to = pair.connect();
    pair.tell(to, 100);
    pair.all_arrived_once();
    pair.alpha.node.remove_peer("beta").expect("a name");
    assert!(pair.alpha.node.peers().is_empty());
    pair.until("over", |pair| !pair.alpha.endpoint.is_open(to));
    pair.alpha.endpoint.close(to);
    let again = pair.connect();
    pair.tell(again, 100);
    pair.all_arrived_once();
}
