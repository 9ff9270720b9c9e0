use super::*;
use crate::drivers::tests::queues as pair;

const BUFFERS: Driver = Driver::Buffers;
/// Without interpretation, padding hides the length.
#[test]
fn who_interprets_knows_the_length_of_a_short_frame() {
    let [mut near, mut far] = pair(INTERPRETED);
    near.prepare(16).unwrap();
    far.prepare(17).unwrap();
    near.send(1).unwrap();
    assert_eq!(far.receive(BATCH).unwrap(), Arrived { messages: 1, bytes: 16, wrong: 1, control: None });
}

/// As over transports that do not know the peer's address at the start.
#[test]
fn who_is_heard_is_known() {
    let [mut near, mut far] = pair(BUFFERS);
    let whole = [&near, &far].map(|side| side.link.to);
    for side in [&mut near, &mut far] {
        side.link.to = Address::BROADCAST;
        side.data = head(DATA, side.link.from, Address::BROADCAST, side.content.bytes().len());
        side.prepare(16).unwrap();
    }
    near.send_control(ControlMessage::End).unwrap();
    assert_eq!(far.receive(BATCH).unwrap().control, Some(ControlMessage::End));
    far.send_control(ControlMessage::Ended).unwrap();
    assert_eq!(near.receive(BATCH).unwrap().control, Some(ControlMessage::Ended));
    assert_eq!([near.link.to, far.link.to], whole);
    near.send(1).unwrap();
    assert_eq!(far.receive(BATCH).unwrap().messages, 1);
}
/// The near side sends for long before it receives.
#[test]
fn an_echo_without_room_is_sent_later() {
    let [mut near, mut far] = pair(Driver::Raw);
    near.prepare(16).unwrap();
    far.prepare(16).unwrap();
    far.echo(true);
    let (mut sent, mut arrived) = (0, 0);
    for _ in 0..1_000 {
        sent += near.send(BATCH).unwrap() as u64;
        far.receive(BATCH).unwrap();
    }
    for _ in 0..1_000 {
        arrived += near.receive(BATCH).unwrap().messages;
        far.receive(BATCH).unwrap();
    }
    assert_eq!(arrived, sent);
}
#[test]
fn a_full_queue_says_so_and_loses_nothing() {
    let [mut near, mut far] = pair(Driver::Raw);
    near.prepare(16).unwrap();
    far.prepare(16).unwrap();
    let mut sent = 0;
    loop {
        match near.send(BATCH).unwrap() {
            0 => break,
            more => sent += more,
        }
    }
    let mut arrived = 0;
    while let Arrived { messages: more @ 1.., .. } = far.receive(BATCH).unwrap() {
        arrived += more as usize;
    }
    assert_eq!(arrived, sent);
}

#[test]
fn small_payloads_are_copied_and_large_ones_made() {
    for (size, made) in [(MAX_COPIED, false), (MAX_COPIED + 1, true)] {
        let mut frame = vec![0; size];
        provide(&mut frame, &vec![7; size]);
        assert_eq!(frame, vec![if made { IN_PLACE_BYTE } else { 7 }; size]);
        // The receiver expects the same content.
        let mut sent = vec![0; size];
        provide(&mut sent, hybrid(size).bytes());
        assert_eq!(sent, hybrid(size).bytes());
    }
}
