//! The stamp: no number twice, none skipped, each sender's in order, no credit lost.

use std::collections::HashMap;
use std::sync::Mutex;
use std::thread;

use am_wire::Address;
use am_wire::group::{GroupFrame, GroupHeader};
use am_wire::stamp::{
    Destination, OpenStampsError, Opening, REMEMBERED, Refusal, SENDERS, SenderState, Stamp, Stamps, stamp, stamped,
};

const GROUP: u64 = 77;
const EPOCH: u32 = 5;

fn address(sender: u16) -> Address {
    Address::from_u64((2 << 40) + u64::from(sender) + 1)
}

fn sender(place: u16, next: u32, limit: u32) -> Option<SenderState> {
    Some(SenderState { address: address(place), next, limit })
}

fn opening<'a>(senders: &'a [Option<SenderState>]) -> Opening<'a> {
    Opening {
        group: GROUP,
        key: [0; 2],
        epoch: EPOCH,
        lease_until: 1_000,
        next: 100,
        recycled: 100,
        capacity: 1_000,
        share: 10,
        senders,
        to: Destination::Group,
        copies: &[],
    }
}

fn open(opening: &Opening<'_>) -> Box<Stamps> {
    let stamps = Box::new(Stamps::new());
    stamps.open(opening).unwrap();
    stamps
}

fn header(sender: u16, seq: u32) -> GroupHeader {
    GroupHeader::to_stamp(GROUP, EPOCH, sender, seq)
}

fn ask(stamps: &Stamps, sender: u16, seq: u32) -> Result<Stamp, Refusal> {
    stamp(stamps, &header(sender, seq), address(sender), 0)
}

#[track_caller]
fn numbered(answer: Result<Stamp, Refusal>, number: u64) {
    assert_eq!(answer.map(|stamp| stamp.number), Ok(number));
}

#[test]
fn each_reason_to_refuse() {
    let key = [1, 2];
    let stamps = open(&Opening { key, ..opening(&[sender(0, 7, 17), None]) });
    let good = header(0, 7);
    let good = GroupHeader { tag: good.tag_under(key), ..good };
    let ask = |header: GroupHeader, from, now| stamp(&stamps, &header, address(from), now);
    assert_eq!(ask(GroupHeader { group: 78, ..good }, 0, 0), Err(Refusal::NoGroup));
    assert_eq!(ask(GroupHeader { epoch: 4, ..good }, 0, 0), Err(Refusal::Epoch));
    assert_eq!(ask(good, 0, 1_000), Err(Refusal::Lease));
    for place in [1, 2, 63, 64, u16::MAX] {
        assert_eq!(ask(GroupHeader { sender: place, ..good }, 0, 0), Err(Refusal::Sender));
    }
    assert_eq!(ask(good, 1, 0), Err(Refusal::Address));
    assert_eq!(ask(GroupHeader { tag: good.tag ^ 1, ..good }, 0, 0), Err(Refusal::Tag));
    assert_eq!(ask(good, 0, 999), Ok(Stamp { number: 100, limit: 17, is_again: false }));
    stamps.close();
    assert_eq!(ask(good, 0, 0), Err(Refusal::Epoch));
    assert_eq!(ask(GroupHeader { epoch: 0, ..good }, 0, 0), Err(Refusal::Epoch));
}

#[test]
fn a_stamped_header_has_a_new_tag() {
    let key = [3, 4];
    let stamps = open(&Opening { key, ..opening(&[sender(0, 0, 10)]) });
    let asked = GroupHeader { flags: 9, content: 8, ..header(0, 0) };
    let asked = GroupHeader { tag: asked.tag_under(key), ..asked };
    let answer = stamp(&stamps, &asked, address(0), 0).unwrap();
    let said = stamped(&stamps, &asked, &answer);
    assert!(said.is_authentic(key) && said.tag != asked.tag);
    let expected = GroupHeader { what: GroupFrame::Stamped, number: 100, limit: 10, tag: said.tag, ..asked };
    assert_eq!(said, expected);
}

#[test]
fn a_message_keeps_its_number_and_none_overtakes() {
    // The sequence number wraps.
    let first = u32::MAX - 3;
    let stamps = open(&opening(&[sender(0, first, first.wrapping_add(500))]));
    assert_eq!(ask(&stamps, 0, first.wrapping_sub(1)), Err(Refusal::Forgotten));
    assert_eq!(ask(&stamps, 0, first.wrapping_add(1)), Err(Refusal::Gap));
    for n in 0..300_u32 {
        let seq = first.wrapping_add(n);
        numbered(ask(&stamps, 0, seq), 100 + u64::from(n));
        let back = n.min(REMEMBERED as u32 - 1);
        numbered(ask(&stamps, 0, seq.wrapping_sub(back)), 100 + u64::from(n - back));
        assert!(ask(&stamps, 0, seq).unwrap().is_again);
        let forgotten = seq.wrapping_sub(REMEMBERED as u32);
        assert_eq!(ask(&stamps, 0, forgotten), Err(Refusal::Forgotten));
        assert_eq!(ask(&stamps, 0, seq.wrapping_add(2)), Err(Refusal::Gap));
    }
    assert_eq!(stamps.next(), 400);
}

#[test]
fn a_number_beyond_those_that_an_entry_has_is_found() {
    let next = (1 << 40) - 2;
    let stamps = open(&Opening { next, recycled: next, ..opening(&[sender(0, 0, 500)]) });
    for n in 0..5 {
        numbered(ask(&stamps, 0, n), next + u64::from(n));
    }
    numbered(ask(&stamps, 0, 0), next);
}

#[test]
fn a_sender_without_credit_waits() {
    let senders = [sender(0, 0, 4), sender(1, 0, 0)];
    let stamps = open(&Opening { capacity: 8, share: 4, ..opening(&senders) });
    let credits = || {
        let credits = stamps.credits();
        assert_eq!(credits.sum(), 8);
        (credits.pool, credits.granted, credits.used)
    };
    assert_eq!(credits(), (4, 4, 0));
    // It has less than half of its share only after the third.
    (0..3).for_each(|seq| assert_eq!(ask(&stamps, 0, seq).unwrap().limit, 4));
    assert_eq!(ask(&stamps, 0, 3).unwrap().limit, 8);
    assert_eq!(credits(), (0, 4, 4));
    assert_eq!(ask(&stamps, 1, 0), Err(Refusal::Credit));
    (4..8).for_each(|seq| assert_eq!(ask(&stamps, 0, seq).unwrap().limit, 8));
    assert_eq!(ask(&stamps, 0, 8), Err(Refusal::Credit));
    stamps.recycle(103);
    assert_eq!(credits(), (3, 0, 5));
    // Who sends a message again learns of new credit.
    assert_eq!(ask(&stamps, 0, 7), Ok(Stamp { number: 107, limit: 11, is_again: true }));
    stamps.recycle(50);
    stamps.recycle(1_000);
    assert_eq!(credits(), (5, 3, 0));
    assert_eq!(ask(&stamps, 1, 0), Ok(Stamp { number: 108, limit: 4, is_again: false }));
}

#[test]
fn a_new_epoch_knows_nothing_of_the_old_one() {
    let stamps = open(&opening(&[sender(0, 0, 10)]));
    (0..5).for_each(|seq| numbered(ask(&stamps, 0, seq), 100 + u64::from(seq)));
    stamps.close();
    assert!(stamps.is_at_rest());
    let senders = [sender(0, 5, 15), sender(1, 0, 10)];
    stamps.open(&Opening { epoch: EPOCH + 1, next: 200, recycled: 200, ..opening(&senders) }).unwrap();
    assert_eq!(ask(&stamps, 0, 5), Err(Refusal::Epoch));
    let ask = |place, seq| stamp(&stamps, &GroupHeader { epoch: EPOCH + 1, ..header(place, seq) }, address(place), 0);
    assert_eq!(ask(0, 4), Err(Refusal::Forgotten));
    numbered(ask(0, 5), 200);
    numbered(ask(1, 0), 201);
    assert_eq!(stamps.sender(0), sender(0, 6, 15));
    assert_eq!(stamps.sender(2), None);
}

#[test]
fn what_does_not_add_up_does_not_open() {
    let senders = vec![sender(0, 0, 10); SENDERS + 1];
    let stamps = Stamps::new();
    for wrong in [
        Opening { epoch: 0, ..opening(&[]) },
        Opening { group: 0, ..opening(&[]) },
        Opening { recycled: 101, ..opening(&[]) },
        Opening { next: 1_101, ..opening(&[]) },
        opening(&senders),
        opening(&[sender(0, 0, 1_001)]),
        opening(&[sender(0, 1, 0)]),
    ] {
        assert_eq!(stamps.open(&wrong), Err(OpenStampsError::Invalid));
        assert_eq!(stamps.epoch(), 0);
    }
}

/// Threads that send all messages of all senders, each message several times, in disorder, while another thread recycles.
#[test]
fn threads_stamp_at_once() {
    const THREADS: usize = 3;
    const ROUNDS: u32 = 300_000;
    const SENDING: u16 = 2;
    let senders: Vec<_> = (0..SENDING).map(|place| sender(place, 0, 0)).collect();
    let stamps = open(&Opening { capacity: 64, ..opening(&senders) });
    let given: Mutex<HashMap<u64, (u16, u32)>> = Mutex::default();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (stamps, given) = (&stamps, &given);
            scope.spawn(move || {
                let mut own = Vec::new();
                let mut random = thread as u32 + 1;
                for round in 0.. {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let place = (random >> 16) as u16 % SENDING;
                    let next = stamps.sender(place.into()).unwrap().next;
                    if stamps.next() >= 100 + u64::from(ROUNDS) {
                        break;
                    }
                    let seq = (next + 1).saturating_sub(random >> 24 & 3);
                    if let Ok(stamp) = ask(stamps, place, seq) {
                        own.push((stamp.number, (place, seq)));
                    }
                    if thread == 0 && round % 4 == 0 {
                        stamps.recycle(stamps.next().saturating_sub(5));
                    }
                }
                let mut given = given.lock().unwrap();
                for (number, message) in own {
                    assert_eq!(*given.entry(number).or_insert(message), message, "the number {number} is given twice");
                }
            });
        }
    });
    assert_eq!(stamps.credits().sum(), 64);
    let given = given.into_inner().unwrap();
    let mut next = [0; SENDING as usize];
    for number in 100..stamps.next() {
        let (place, seq) = given[&number];
        assert_eq!(seq, next[usize::from(place)], "the number {number} is out of order");
        next[usize::from(place)] += 1;
    }
    assert_eq!(given.len() as u64, stamps.next() - 100);
}
