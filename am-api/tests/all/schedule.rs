//! Endpoints that are polled together: who is served, how much, and in which order.

use std::time::Duration;

use crate::common::{LONG, in_memory, plain};
use am_api::{Connection, ConnectionChange, Endpoint, EndpointSet, HandlerId, Message, Node, PollScope};

const WORK: HandlerId = HandlerId(3);
const VISIT: usize = EndpointSet::<Served>::VISIT;

/// The endpoints whose messages were handled, by number, in that order; connection events; outcomes of calls.
#[derive(Default)]
struct Served {
    order: Vec<usize>,
    accepted: usize,
    outcomes: usize,
}

/// One node with endpoints in a set, and a client with a connection to each of those that it needs.
struct World {
    client: Endpoint<()>,
    to: Vec<Connection>,
    set: EndpointSet<Served>,
    /// Not in the set. It turns the node without serving anybody.
    pump: Endpoint<()>,
    state: Served,
    _nodes: [Node; 2],
}

impl World {
    fn new(count: usize, active: &[usize]) -> World {
        let (left, right) = in_memory();
        let alpha = plain("alpha").open_on(left).expect("a node");
        let beta = plain("beta").open_on(right).expect("a node");
        let mut set = EndpointSet::new(&beta);
        for number in 0..count {
            let mut endpoint = beta.endpoint::<Served>(&format!("e{number}")).expect("an endpoint");
            endpoint.on_request(WORK, move |served, _| served.order.push(number));
            endpoint.on_connection(|served, event| {
                served.accepted += usize::from(event.change == ConnectionChange::Accepted)
            });
            set.insert(endpoint).expect("of this node");
        }
        let client = alpha.endpoint("main").expect("an endpoint");
        let pump = beta.endpoint("pump").expect("an endpoint");
        let (to, state) = (vec![], Served::default());
        let mut world = World { client, to, set, pump, state, _nodes: [alpha, beta] };
        for number in active {
            let to = world.client.connect("beta", &format!("e{number}")).expect("asked for");
            while !world.client.is_open(to) {
                world.client.poll(&mut ());
                world.set.poll(&mut world.state);
            }
            world.to.push(to);
        }
        world
    }

    /// So many messages to each of the active endpoints arrive, in this order, before anybody is served.
    fn arrive(&mut self, counts: &[usize]) {
        for (&to, &count) in self.to.iter().zip(counts) {
            for _ in 0..count {
                self.client.try_request(to, WORK, &[], b"").expect("credit");
            }
        }
        for _ in 0..20 {
            self.client.poll(&mut ());
            self.pump.poll(&mut ());
        }
    }

    fn serve(&mut self) -> Vec<(usize, usize)> {
        while self.set.poll(&mut self.state) > 0 {}
        self.runs()
    }

    /// Who was served, and how many messages in a row.
    fn runs(&mut self) -> Vec<(usize, usize)> {
        let order = std::mem::take(&mut self.state.order);
        order.chunk_by(|one, other| one == other).map(|run| (run[0], run.len())).collect()
    }
}

#[test]
fn each_is_served_by_its_weight() {
    let mut world = World::new(2, &[0, 1]);
    world.set.get("e1").expect("there").set_weight(2);
    world.arrive(&[3 * VISIT, 3 * VISIT]);
    assert_eq!(world.serve(), [(0, VISIT), (1, 2 * VISIT), (0, VISIT), (1, VISIT), (0, VISIT)]);
}

#[test]
fn each_gets_its_turn_without_handlers_too() {
    let mut world = World::new(2, &[0, 1]);
    world.set.get("e0").expect("there").set_weight(4);
    world.arrive(&[3 * VISIT, VISIT]);
    let mut turns = vec![];
    for _ in 0..2 {
        let note = |served: &mut Served, index, _: &Message<'_, _>| served.order.push(index);
        assert_eq!(world.set.receive_each(PollScope::Everything, &mut world.state, note), am_api::BUDGET);
        turns.push(world.runs());
    }
    let [first, second] = [turns[0][0].0, turns[1][0].0];
    assert_eq!(turns, [vec![(first, 2 * VISIT)], vec![(second, VISIT), (first, VISIT)]]);
    assert_ne!(first, second);
}

#[test]
fn a_weight_may_change_while_messages_wait() {
    let mut world = World::new(2, &[0, 1]);
    world.arrive(&[3 * VISIT, 3 * VISIT]);
    assert_eq!(world.set.poll(&mut world.state), am_api::BUDGET);
    assert_eq!(world.runs(), [(0, VISIT), (1, VISIT)]);
    world.set.get("e1").expect("there").set_weight(2);
    assert_eq!(world.serve(), [(0, VISIT), (1, 2 * VISIT), (0, VISIT)]);
}

#[test]
fn one_message_waits_for_a_visit_of_each_other_at_most() {
    let mut world = World::new(3, &[0, 1, 2]);
    world.arrive(&[3 * VISIT, 2 * VISIT, 1]);
    assert_eq!(world.serve(), [(0, VISIT), (1, VISIT), (2, 1), (0, VISIT), (1, VISIT), (0, VISIT)]);
}

/// A plain round robin needs a turn for each of the 256.
#[test]
fn idle_ones_take_no_turn() {
    let mut world = World::new(256, &[200, 13]);
    for _ in 0..3 {
        world.arrive(&[1, 1]);
        assert_eq!(world.set.poll(&mut world.state), 2);
    }
}

#[test]
fn the_last_one_that_was_active_is_served_first() {
    let mut world = World::new(16, &[3, 7]);
    world.arrive(&[1, 1]);
    assert_eq!(world.serve(), [(3, 1), (7, 1)]);
    world.arrive(&[1, 1]);
    assert_eq!(world.serve(), [(7, 1), (3, 1)]);
    // What is left of a visit is not more than a visit.
    world.arrive(&[1, VISIT]);
    assert_eq!(world.serve(), [(3, 1), (7, VISIT)]);
}

#[test]
fn events_come_to_all_of_them() {
    let world = World::new(40, &[0, 39]);
    assert_eq!(world.state.accepted, 2);
}

#[test]
fn a_wait_ends_for_a_message_and_for_the_deadline_of_a_call() {
    let mut world = World::new(2, &[1]);
    world.client.try_request(world.to[0], WORK, &[], b"").expect("credit");
    world.client.flush();
    assert_eq!(world.set.wait(&mut world.state, LONG), 1);
    assert_eq!(world.runs(), [(1, 1)]);
    let caller = world.set.get("e0").expect("there");
    caller.on_outcome(WORK, |served, _| served.outcomes += 1);
    let to = caller.connect("alpha", "main").expect("asked for");
    while !world.set.get("e0").expect("there").is_open(to) {
        world.client.poll(&mut ());
        world.set.poll(&mut world.state);
    }
    // The event that it is open.
    while world.set.poll(&mut world.state) > 0 {}
    let caller = world.set.get("e0").expect("there");
    caller.try_call(to, WORK, &[], b"", Duration::from_millis(2)).expect("credit");
    assert_eq!(world.set.wait(&mut world.state, LONG), 1);
    assert_eq!(world.state.outcomes, 1);
}

#[test]
fn an_endpoint_that_was_removed_is_served_by_itself() {
    let mut world = World::new(2, &[0, 1]);
    let mut alone = world.set.remove("e0").expect("there");
    assert!(world.set.remove("e0").is_none() && world.set.get("e0").is_none());
    world.arrive(&[1, 1]);
    assert_eq!(world.serve(), [(1, 1)]);
    assert_eq!(alone.poll(&mut world.state), 1);
    assert!(EndpointSet::new(&world._nodes[0]).insert(alone).is_err(), "of another node");
}
