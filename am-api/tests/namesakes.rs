//! Two nodes of one name, started by mistake: all who hear them say so, and what is asked is answered.

mod common;

use std::time::{Duration, Instant};

use am_api::{Handler, NotOpen};
use common::{LONG, Side, plain};
use transport::loopback::wire;

const ECHO: Handler = Handler(1);

fn open() -> [Side<u64>; 3] {
    let names = ["alpha", "beta", "beta"];
    let mut ends = wire(3).into_iter().zip(names).map(|(plug, name)| {
        let transport = Box::new(plug.open().expect("memory"));
        let mut side: Side<u64> = Side::open(plain(name).beacon(Duration::from_millis(300)), transport);
        side.endpoint.on_request(ECHO, |_, asked, token| token.reply(ECHO, asked.words(), b"").expect("it fits"));
        side.endpoint.on_reply(ECHO, |answers: &mut u64, _| *answers += 1);
        side
    });
    std::array::from_fn(|_| ends.next().expect("three ends"))
}

#[test]
fn all_who_hear_them_say_so() {
    let mut sides = open();
    let start = Instant::now();
    let mut to = sides[0].endpoint.connect("beta", "main").expect("asked for");
    while sides.iter().any(|side| side.node.trouble().is_none()) || sides[0].state < 100 {
        assert!(start.elapsed() < LONG, "{:?}", sides.each_ref().map(|side| side.node.trouble()));
        sides.iter_mut().for_each(|side| _ = side.poll());
        let endpoint = &sides[0].endpoint;
        match endpoint.ready(to) {
            Ok(()) => _ = endpoint.request(to, ECHO, &[1], b""),
            Err(NotOpen::Connecting) => (),
            Err(_) => to = endpoint.connect("beta", "main").expect("asked for"),
        }
    }
    let addresses = [1, 2].map(|at: usize| sides[at].node.address().to_string());
    for side in &sides {
        let trouble = side.node.trouble().expect("as before");
        assert!(trouble.contains("`beta`") && addresses.iter().all(|address| trouble.contains(address)), "{trouble}");
        assert!(side.counter("names_contested") > 0);
    }
}
