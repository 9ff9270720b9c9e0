//! Two nodes of one name, started by mistake: all who hear them say so, and where they are; what is asked is answered.

use std::time::{Duration, Instant};

use crate::common::{LONG, Side, plain};
use am_api::{HandlerId, NotOpen, Problem, Request, Transport};
use am_transport::loopback::wire;

const ECHO: HandlerId = HandlerId(1);

/// "alpha" and two that are called "beta".
fn open(ends: impl IntoIterator<Item = Box<dyn Transport>>) -> Vec<Side<u64>> {
    let open = |(name, transport)| {
        let mut side: Side<u64> = Side::open(plain(name).beacon(Duration::from_millis(300)), transport);
        side.endpoint.on_request(ECHO, |_, Request { message: asked, token }| {
            token.reply(ECHO, asked.words(), b"").expect("it fits")
        });
        side.endpoint.on_reply(ECHO, |answers: &mut u64, _| *answers += 1);
        side
    };
    ["alpha", "beta", "beta"].into_iter().zip(ends).map(open).collect()
}

/// Until all of them say so, and alpha has been answered again and again.
fn run(sides: &mut [Side<u64>]) {
    let start = Instant::now();
    let mut to = sides[0].endpoint.connect("beta", "main").expect("asked for");
    let is_said = |side: &Side<u64>| matches!(side.node.health(), Err(Problem::DuplicateName { .. }));
    while !sides.iter().all(is_said) || sides[0].state < 100 {
        let health = || sides.iter().map(|side| side.node.health()).collect::<Vec<_>>();
        assert!(start.elapsed() < LONG, "{:?}\n{}", health(), sides[0].node.counters());
        sides.iter_mut().for_each(|side| _ = side.poll());
        let endpoint = &sides[0].endpoint;
        match endpoint.ready(to) {
            Ok(()) => _ = endpoint.try_request(to, ECHO, &[1], b""),
            Err(NotOpen::Connecting) => (),
            Err(_) => {
                endpoint.close(to);
                to = endpoint.connect("beta", "main").expect("asked for");
            }
        }
    }
}

fn assert_told(sides: &[Side<u64>], where_they_are: [String; 2]) {
    for side in sides {
        let problem = side.node.health().unwrap_err().to_string();
        assert!(problem.contains("`beta`") && where_they_are.iter().all(|place| problem.contains(place)), "{problem}");
        assert!(side.counter("names_contested") > 0);
    }
}

#[test]
fn all_who_hear_them_say_so() {
    let mut sides = open(wire(3).into_iter().map(|plug| Box::new(plug.open().expect("memory")) as Box<dyn Transport>));
    run(&mut sides);
    assert_told(&sides, [1, 2].map(|at: usize| sides[at].node.link_address().to_string()));
}

#[test]
fn over_sockets_with_their_places() {
    for on in ["udp:127.0.0.1:0", "tcp:127.0.0.1:0", "udp:127.0.0.1:0,frame=1514+tcp:127.0.0.1:0,frame=1514"] {
        let mut sides = open((0..3).map(|_| am_api::transports::open(on).expect("a socket")));
        let places: Vec<Vec<String>> =
            sides.iter().map(|side| side.node.local_address().split('+').map(str::to_owned).collect()).collect();
        for (at, place) in [(0, 1), (0, 2), (1, 2)] {
            places[place].iter().for_each(|place| sides[at].node.add_peer_address(place).expect("a place"));
        }
        run(&mut sides);
        assert_told(&sides, [1, 2].map(|at: usize| places[at][0].clone()));
    }
}
