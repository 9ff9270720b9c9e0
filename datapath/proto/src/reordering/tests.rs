use super::*;

const WAITS: Timing = Timing { ack_delay: 0, ack_every: 32, min_timeout: 250_000, max_timeout: 50_000_000 };
const MS: u64 = 1_000_000;

fn measured() -> Rtt {
    let mut rtt = Rtt::default();
    rtt.sample(2 * MS, Answer::Alone);
    rtt
}

/// Message 7 was sent again after 1 ms. After 4 ms the receiver reports a duplicate.
fn after_a_duplicate_report() -> (Reordering, Rtt) {
    let (mut order, mut rtt) = (Reordering::default(), measured());
    order.begin_doubt(Time(MS), Class::Request, (Seq(7), Time(0)), &rtt, &WAITS);
    assert!(
        !order.on_duplicate_report(Time(4 * MS), Class::Reply, SeqLowBits::of(7), &mut rtt, &WAITS),
        "another class"
    );
    assert!(
        !order.on_duplicate_report(Time(4 * MS), Class::Request, SeqLowBits::of(8), &mut rtt, &WAITS),
        "another message"
    );
    assert!(order.on_duplicate_report(Time(4 * MS), Class::Request, SeqLowBits::of(7), &mut rtt, &WAITS));
    assert!(!order.on_duplicate_report(Time(4 * MS), Class::Request, SeqLowBits::of(7), &mut rtt, &WAITS), "once");
    (order, rtt)
}

#[test]
fn a_vain_retransmission_sets_the_tolerance() {
    let (order, _) = after_a_duplicate_report();
    assert_eq!(order.tolerance, 4 * MS);
}

#[test]
fn a_second_retransmission_ends_the_doubt() {
    let (mut order, mut rtt) = (Reordering::default(), measured());
    order.begin_doubt(Time(MS), Class::Request, (Seq(7), Time(0)), &rtt, &WAITS);
    order.drop_doubt();
    assert!(!order.on_duplicate_report(Time(4 * MS), Class::Request, SeqLowBits::of(7), &mut rtt, &WAITS));
    assert_eq!(order.tolerance, 0);
}

#[test]
fn one_doubt_at_a_time_until_its_answer_should_have_come() {
    let (mut order, rtt) = (Reordering::default(), measured());
    let mut doubts = |at, seq| {
        order.begin_doubt(Time(at), Class::Request, (Seq(seq), Time(0)), &rtt, &WAITS);
        order.doubt.expect("one").seq
    };
    assert_eq!((doubts(MS, 7), doubts(2 * MS, 8), doubts(20 * MS, 9)), (Seq(7), Seq(7), Seq(9)));
}

#[test]
fn the_tolerance_follows_the_age_of_late_messages() {
    let (mut order, rtt) = after_a_duplicate_report();
    order.note_late(2 * MS);
    order.shrink(Time(60 * MS), &rtt, &WAITS);
    assert_eq!(order.tolerance, 4 * MS, "too soon");
    order.shrink(Time(100 * MS), &rtt, &WAITS);
    assert_eq!(order.tolerance, 2 * MS + MS / 4);
    order.shrink(Time(200 * MS), &rtt, &WAITS);
    assert_eq!(order.tolerance, 0, "nothing came late");
}

#[test]
fn one_long_delay_does_not_set_the_tolerance() {
    let (mut order, mut rtt) = (Reordering::default(), Rtt::default());
    rtt.sample(10_000, Answer::Alone);
    order.begin_doubt(Time(10_000), Class::Request, (Seq(7), Time(0)), &rtt, &WAITS);
    assert!(order.on_duplicate_report(Time(40 * MS), Class::Request, SeqLowBits::of(7), &mut rtt, &WAITS));
    assert_eq!(order.tolerance, MAX_TOLERANCE_GROWTH * WAITS.min_timeout);
}

#[test]
fn a_receiver_counts_reported_losses_only() {
    let mut peer = PeerLosses::default();
    assert!(peer.counts_gap_as_loss(), "there was no report");
    assert_eq!(
        (
            peer.on_loss_report(SeqLowBits::of(8190)),
            peer.on_loss_report(SeqLowBits::of(8195)),
            peer.on_loss_report(SeqLowBits::of(8193))
        ),
        (0, 5, 0)
    );
    assert!((0..GAPS_PER_REPORT).all(|_| !peer.counts_gap_as_loss()));
    assert!(peer.counts_gap_as_loss(), "there was no report for long");
}
