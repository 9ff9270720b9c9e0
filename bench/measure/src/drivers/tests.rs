//! What every channel promises, checked of each driver.

use super::queues::Queues;
use super::raw::tests::bent;
use super::sleeping::{MAX_SLEEP, Sleeping};
use super::tcp::{WriteBatching, tests as tcp};
use super::{am, udp};
use crate::channel::{Arrived, BATCH, Channel, ControlMessage};
use crate::driver::Driver;
use am_transport::loopback::wire;
use std::time::{Duration, Instant};

type Pair = [Box<dyn Channel>; 2];

fn boxed<C: Channel + 'static>([near, far]: [C; 2]) -> Pair {
    [Box::new(near), Box::new(far)]
}

/// Repeat `turn` until it is done.
fn until(what: &str, mut turn: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !turn() {
        assert!(begin.elapsed() < Duration::from_secs(60), "still not: {what}");
    }
}

/// Send this number of messages, and a control message behind them. Returns how many of them had room, and what arrives.
fn exchange([near, far]: &mut Pair, count: usize, step: u32) -> (u64, Arrived) {
    let (mut sent, mut all, control) = (0, Arrived::default(), ControlMessage::Stop { step });
    until("sent", || {
        sent += near.send(count - sent).unwrap();
        near.receive(BATCH).unwrap();
        sent >= count
    });
    until("a control message", || {
        near.send_control(control).unwrap();
        near.receive(BATCH).unwrap();
        all.add(far.receive(BATCH).unwrap());
        all.control == Some(control)
    });
    (sent as u64, all)
}

fn check(name: &str, sizes: &[usize], mut pair: Pair) {
    let mut steps = 1..;
    let mut next = || steps.next().unwrap();
    for &size in sizes {
        pair.iter_mut().for_each(|side| side.prepare(size).unwrap());
        for count in [1, 3, BATCH] {
            let (messages, arrived) = exchange(&mut pair, count, next());
            let expected = Arrived { messages, bytes: messages * size as u64, wrong: 0, control: arrived.control };
            assert_eq!(arrived, expected, "{count} messages of {size} bytes by {name}");
        }
        let [near, far] = &mut pair;
        far.echo(true);
        let mut back = near.send(1).unwrap();
        until("an echo", || {
            far.receive(BATCH).unwrap();
            back -= near.receive(1).unwrap().messages as usize;
            back == 0
        });
        far.echo(false);
    }
    // On a stream another length is other messages.
    if !name.starts_with("Tcp") {
        pair[0].prepare(99).unwrap();
        pair[1].prepare(100).unwrap();
        let (messages, arrived) = exchange(&mut pair, 2, next());
        assert_eq!((arrived.bytes, arrived.wrong), (99 * messages, messages), "{name}");
    }
}

#[test]
fn messages_arrive_as_they_were_sent_before_the_control_message_behind_them_and_come_back() {
    for driver in [Driver::Raw, Driver::Buffers, Driver::Interpreted] {
        check(driver.name(), &[1, 45, 46, 47, 256, 257, 1500], boxed(queues(driver)));
    }
    for piece in [9014, 1510, 4096] {
        check("frames in pieces", &[1, 46, 1500, 9000], boxed(bent(|_| {}, piece, 1)));
    }
    check("am", &[1, 16, 1000], boxed(am::tests::pair()));
    check("udp", &[1, 16, 1472, 65_507], boxed(udp::tests::pair()));
    check("udp, sleeping", &[16, 1472], boxed(udp::tests::pair().map(Sleeping::new)));
    for (last, batching) in (1..).zip([WriteBatching::Sender, WriteBatching::Coalesced, WriteBatching::Kernel]) {
        let name = format!("Tcp, {batching:?}");
        check(&name, &[1, 16, 1448, 100_000], boxed(tcp::pair_that(last, batching)));
        check(&name, &[16, 1448], boxed(tcp::pair_that(last + 10, batching).map(Sleeping::new)));
    }
}

pub(super) fn queues(driver: Driver) -> [Queues<am_transport::loopback::Loopback>; 2] {
    let ends = wire(2).into_iter().map(|plug| (plug.address(), plug.open().unwrap()));
    let [(here, near), (there, far)] = <[_; 2]>::try_from(ends.collect::<Vec<_>>()).unwrap();
    [Queues::new(near, there, driver), Queues::new(far, here, driver)]
}

#[test]
fn who_has_nothing_to_do_sleeps() {
    let [mut near, _far] = udp::tests::pair().map(Sleeping::new);
    let begin = Instant::now();
    for _ in 0..20 {
        assert_eq!(near.receive(1).unwrap(), Arrived::default());
    }
    assert!(begin.elapsed() >= 20 * Duration::from(MAX_SLEEP), "{:?}", begin.elapsed());
}
