//! Of two peers by TCP one is not looked after for long. The other goes on, and
//! the first gets each message once when it looks again.

use crate::common::{LONG, Side, plain};
use am_api::{Connection, HandlerId, Request, Transport};

const TELL: HandlerId = HandlerId(1);
/// More than a connection's queue has room for, and its sockets.
const WINDOW: u16 = 512;

fn open(name: &str) -> Side<Vec<u64>> {
    let transport: Box<dyn Transport> = am_api::transports::open("tcp:127.0.0.1:0,frame=1514,buffer=5000").unwrap();
    let mut side = Side::<Vec<u64>>::open(plain(name).window(WINDOW).patience(10 * LONG), transport);
    side.endpoint.on_request(TELL, |seen, Request { message, .. }| seen.push(message.word(0)));
    side.endpoint.on_returned(|_, back| panic!("{back:?}"));
    side
}

/// Poll these until it is so.
fn until(sides: &mut [&mut Side<Vec<u64>>], what: &str, mut so: impl FnMut(&mut [&mut Side<Vec<u64>>]) -> bool) {
    let start = std::time::Instant::now();
    while !so(sides) {
        sides.iter_mut().for_each(|side| _ = side.poll());
        assert!(start.elapsed() < LONG, "still not: {what}\n{}", sides[0].node.counters());
    }
}

/// Alpha's conversation with this one.
fn connect(alpha: &mut Side<Vec<u64>>, peer: &mut Side<Vec<u64>>) -> Connection {
    alpha.node.add_peer_address(&peer.node.local_address()).unwrap();
    let to = alpha.endpoint.connect(peer.node.name(), "main").unwrap();
    until(&mut [alpha, peer], "connected", |sides| sides[0].endpoint.is_open(to));
    to
}

#[test]
fn a_peer_that_takes_nothing_does_not_hold_up_another() {
    let mut alpha = open("alpha");
    let [mut stalled, mut busy] = ["stalled", "busy"].map(open);
    let to = [connect(&mut alpha, &mut stalled), connect(&mut alpha, &mut busy)];
    let mut told = 0;
    while alpha.endpoint.try_request(to[0], TELL, &[told], &[7; 1400]).is_ok() {
        told += 1;
    }
    assert!(told > 350, "{told}: all the credit but some");
    let mut number = 0;
    until(&mut [&mut alpha, &mut busy], "the other goes on", |sides| {
        number += u64::from(sides[0].endpoint.try_request(to[1], TELL, &[number], &[7; 1400]).is_ok());
        sides[1].state.len() >= 5000 && sides[0].counter("tcp_lost_stalled") > 0
    });
    assert_eq!(alpha.counter("tcp_closed_ended"), 0, "the connection lives");
    assert!((0..).zip(&busy.state).all(|(number, its)| number == *its));
    until(&mut [&mut alpha, &mut stalled, &mut busy], "the first has all", |sides| sides[1].state.len() as u64 == told);
    stalled.state.sort_unstable();
    assert!(stalled.state.iter().copied().eq(0..told));
}
