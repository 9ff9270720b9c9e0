//! Many messages both ways, of every size.

use crate::common::{against, open_faulty, until};
use am_fm::{Fm, HandlerId, Rank};
use am_transport::faulty::Faults;
use am_transport::loopback::Plug;

const BYTES: HandlerId = HandlerId(1);
const WORDS: HandlerId = HandlerId(2);

/// What the network carries in one message here: 1500, less the header of the `bare` framing or more.
const MOST: usize = 1488;

/// Bytes that depend on the number of the message, and say it where there is room.
fn content(number: u64, into: &mut Vec<u8>) -> &[u8] {
    let size = (number as usize * 7919) % (MOST + 1);
    into.clear();
    into.extend((0..size as u64).map(|at| (number.wrapping_mul(31) + at * 7) as u8));
    let tag = number.to_le_bytes();
    let room = size.min(8);
    into[..room].copy_from_slice(&tag[..room]);
    into
}

#[derive(Default)]
struct Seen {
    /// Sizes that have come.
    sizes: Vec<u32>,
    messages: u64,
    words: u64,
    /// Of the numbers in messages that have room for them.
    sum: u64,
    wrong: u64,
    buffer: Vec<u8>,
}

fn node(own: usize, plug: Plug, faults: Faults) -> (Fm<Seen>, Seen) {
    let mut fm = open_faulty::<Seen>(own, plug, faults);
    fm.on(BYTES, |seen, message| {
        let bytes = message.bytes();
        seen.messages += 1;
        seen.sizes[bytes.len()] += 1;
        let Some(tag) = bytes.first_chunk::<8>() else { return };
        let number = u64::from_le_bytes(*tag);
        seen.sum += number;
        seen.wrong += u64::from(content(number, &mut seen.buffer) != bytes);
    });
    fm.on(WORDS, |seen, message| {
        let [a, b, c, d] = message.words();
        seen.wrong += u64::from(a ^ b ^ c != d || !message.bytes().is_empty());
        seen.words += 1;
    });
    (fm, Seen { sizes: vec![0; MOST + 1], ..Seen::default() })
}

/// Send all, while as many come; then take in what is left.
fn exchange(own: usize, plug: Plug, faults: Faults, many: u64) {
    let (mut fm, mut seen) = node(own, plug, faults);
    let (peer, mut buffer) = (Rank(1 - own), vec![]);
    for number in 0..many {
        fm.send(&mut seen, peer, BYTES, content(number, &mut buffer)).expect("sent");
        if number % 10 == 0 {
            fm.send_4(&mut seen, peer, WORDS, [number, !number, 5, number ^ !number ^ 5]).expect("sent");
        }
    }
    until(&mut fm, &mut seen, "all here", |seen| seen.messages == many && seen.words == many / 10);
    let numbered = |number: &u64| (*number as usize * 7919) % (MOST + 1) >= 8;
    assert_eq!((seen.wrong, seen.sum), (0, (0..many).filter(numbered).sum()));
    let each = (many / (MOST as u64 + 1)) as u32;
    assert!(seen.sizes.iter().all(|count| (each..=each + 1).contains(count)), "each size, as often as it was sent");
    fm.finish(crate::common::LONG).expect("accepted");
}

#[test]
fn a_hundred_thousand_each_way_of_all_sizes() {
    const MANY: u64 = 100_000;
    against(|plug| exchange(1, plug, Faults::NONE, MANY), |plug| exchange(0, plug, Faults::NONE, MANY));
}

/// Each message once, the last ones too, which their sender leaves behind.
#[test]
fn a_network_that_loses_duplicates_and_reorders() {
    let faults = Faults { duplicate: 0.02, delay: 0.05, delay_by: 20, ..Faults::lossy(11, 0.02) };
    against(|plug| exchange(1, plug, faults, 20_000), |plug| exchange(0, plug, faults, 20_000));
}

#[test]
fn the_most_that_a_message_carries_is_what_the_paper_calls_a_frame() {
    let (mut zero, mut one) = crate::common::pair::<Seen, Seen>();
    assert_eq!(zero.most(Rank(1)), None, "nobody has asked yet");
    let mut seen = Seen::default();
    let start = std::time::Instant::now();
    while zero.meet(std::time::Duration::ZERO).is_err() {
        one.extract(&mut seen);
        assert!(start.elapsed() < crate::common::LONG);
    }
    let most = zero.most(Rank(1)).expect("a conversation");
    assert!((MOST..=1500).contains(&most), "{most}");
}
