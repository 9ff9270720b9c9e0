use super::*;

const WAITS: Waits = Waits { ack_delay: 0, ack_every: 32, least: 250_000, most: 50_000_000 };
const MS: u64 = 1_000_000;

fn measured() -> Rtt {
    let mut rtt = Rtt::default();
    rtt.sample(2 * MS);
    rtt
}

/// Message 7 was sent again after 1 ms. After 4 ms the receiver reports a duplicate.
fn learned() -> (Order, Rtt) {
    let (mut order, mut rtt) = (Order::default(), measured());
    order.doubts(Time(MS), Class::Request, (Seq(7), Time(0)), &rtt, &WAITS);
    assert!(!order.repeated(Time(4 * MS), Class::Reply, Low::of(7), &mut rtt, &WAITS), "another class");
    assert!(!order.repeated(Time(4 * MS), Class::Request, Low::of(8), &mut rtt, &WAITS), "another message");
    assert!(order.repeated(Time(4 * MS), Class::Request, Low::of(7), &mut rtt, &WAITS));
    assert!(!order.repeated(Time(4 * MS), Class::Request, Low::of(7), &mut rtt, &WAITS), "once");
    (order, rtt)
}

#[test]
fn what_was_sent_again_for_nothing_is_waited_for() {
    let (order, _) = learned();
    assert_eq!(order.tolerance, 4 * MS);
}

#[test]
fn what_was_sent_twice_more_says_nothing() {
    let (mut order, mut rtt) = (Order::default(), measured());
    order.doubts(Time(MS), Class::Request, (Seq(7), Time(0)), &rtt, &WAITS);
    order.drop_doubt();
    assert!(!order.repeated(Time(4 * MS), Class::Request, Low::of(7), &mut rtt, &WAITS));
    assert_eq!(order.tolerance, 0);
}

#[test]
fn one_doubt_at_a_time_until_its_answer_should_have_come() {
    let (mut order, rtt) = (Order::default(), measured());
    let mut doubts = |at, seq| {
        order.doubts(Time(at), Class::Request, (Seq(seq), Time(0)), &rtt, &WAITS);
        order.doubt.expect("one").seq
    };
    assert_eq!((doubts(MS, 7), doubts(2 * MS, 8), doubts(20 * MS, 9)), (Seq(7), Seq(7), Seq(9)));
}

#[test]
fn the_tolerance_follows_what_comes_late_and_ends_with_it() {
    let (mut order, rtt) = learned();
    order.came_late(2 * MS);
    order.shrink(Time(60 * MS), &rtt, &WAITS);
    assert_eq!(order.tolerance, 4 * MS, "too soon");
    order.shrink(Time(100 * MS), &rtt, &WAITS);
    assert_eq!(order.tolerance, 2 * MS + MS / 4);
    order.shrink(Time(200 * MS), &rtt, &WAITS);
    assert_eq!(order.tolerance, 0, "nothing came late");
}

#[test]
fn a_peer_that_was_away_is_not_waited_for_as_long_as_that() {
    let (mut order, mut rtt) = (Order::default(), Rtt::default());
    rtt.sample(10_000);
    order.doubts(Time(10_000), Class::Request, (Seq(7), Time(0)), &rtt, &WAITS);
    assert!(order.repeated(Time(40 * MS), Class::Request, Low::of(7), &mut rtt, &WAITS));
    assert_eq!(order.tolerance, FASTEST * WAITS.least);
}

#[test]
fn the_peer_counts_what_it_is_told_and_nothing_else() {
    let mut peer = PeerLost::default();
    assert!(peer.is_loss(), "there was no report");
    assert_eq!((peer.told(Low::of(8190)), peer.told(Low::of(8195)), peer.told(Low::of(8193))), (0, 5, 0));
    assert!((0..TRUST).all(|_| !peer.is_loss()));
    assert!(peer.is_loss(), "there was no report for long");
}
