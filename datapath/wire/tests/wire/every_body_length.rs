//! The space of lengths is small: all of it.

use am_wire::frame::{self, LinkAddresses, MIN_FRAME};
use am_wire::steer::{Decision, SteeringTable, steer};
use am_wire::{Address, EtherType, Flow, Framing, HEAD_WORDS, Header, Kind, Piggyback, Reason, WORD_BYTES};

use crate::any::Message;

const LINK: LinkAddresses = LinkAddresses {
    to: Address([0x02, 0, 0, 0, 0, 2]),
    from: Address([0x02, 0, 0, 0, 0, 1]),
    ethertype: EtherType::DEFAULT,
};

fn message(framing: Framing, kind: Kind, words: u8, body: usize, piggyback: Option<Piggyback>) -> Message {
    let flow = if kind == Kind::Control { Flow::NODE } else { Flow::new(9).unwrap() };
    let header = Header { kind, flow, nonce: 0, handler: 0, words, seq: 0x1234 };
    Message { framing, link: LINK, header, body: vec![0x5c; body], piggyback }
}

#[test]
fn every_length_of_every_framing_round_trips() {
    for framing in Framing::ALL {
        for words in 0..=HEAD_WORDS as u8 {
            for body in words as usize * WORD_BYTES..=1500 - framing.cost() {
                for piggyback in [None, Some(Piggyback::default())] {
                    let message = message(framing, Kind::Request, words, body, piggyback);
                    let bytes = message.emit();
                    assert_eq!(bytes.len(), frame::length(framing, body));
                    let parsed = frame::parse(&bytes, EtherType::DEFAULT).unwrap();
                    assert_eq!(parsed.words.len() + parsed.payload.len(), body);
                    assert_eq!(parsed.piggyback, piggyback.filter(|_| frame::has_room_for_piggyback(framing, body)));
                }
            }
        }
    }
}

#[test]
fn a_short_frame_of_another_length_is_refused() {
    for framing in Framing::ALL {
        let mut bytes = message(framing, Kind::Reply, 1, 12, None).emit();
        assert_eq!(bytes.len(), MIN_FRAME);
        bytes.push(0);
        assert_eq!(frame::parse(&bytes, EtherType::DEFAULT), Err(Reason::Length));
        bytes.truncate(MIN_FRAME - 1);
        assert_eq!(frame::parse(&bytes, EtherType::DEFAULT), Err(Reason::Short));
    }
}

/// A table in which every flow is open.
fn open() -> SteeringTable {
    SteeringTable { flows: [1; Flow::COUNT], ..SteeringTable::new(EtherType::DEFAULT, LINK.to) }
}

/// As igb does with a receive buffer of 1 KiB, and others with other units.
#[test]
fn a_frame_cut_at_a_drivers_unit_is_refused() {
    let table = open();
    for framing in Framing::ALL {
        let body = vec![0x5c; 1518 - framing.body_at()];
        for length in MIN_FRAME + 1..=1518 {
            let whole = Message {
                body: body[..length - framing.body_at()].into(),
                ..message(framing, Kind::Request, 0, 0, None)
            };
            let bytes = whole.emit();
            assert_eq!(steer(&bytes, &table), Decision::Socket(0));
            for cut in (64..length).step_by(16) {
                assert_eq!(
                    steer(&bytes[..cut], &table),
                    Decision::Drop(Reason::Length),
                    "{framing}: {length} cut to {cut}"
                );
                assert_eq!(frame::parse(&bytes[..cut], EtherType::DEFAULT), Err(Reason::Length));
            }
        }
    }
}

/// A check sequence that a driver counts, a word that it rounds up to, a time stamp behind the data.
#[test]
fn a_padded_frame_is_refused() {
    let table = open();
    for framing in Framing::ALL {
        for body in 0..1500 {
            let mut bytes = message(framing, Kind::Request, 0, body, None).emit();
            for _ in 0..30 {
                bytes.push(0);
                assert_eq!(steer(&bytes, &table), Decision::Drop(Reason::Length));
                assert_eq!(frame::parse(&bytes, EtherType::DEFAULT), Err(Reason::Length));
            }
        }
    }
}

/// Every value of the trailer's last byte, after every body that leaves one.
#[test]
fn every_last_byte_is_taken_or_refused() {
    for framing in Framing::ALL {
        let mut bytes = message(framing, Kind::Request, 0, 0, None).emit();
        for last in 0..=u8::MAX {
            bytes[MIN_FRAME - 1] = last;
            let (body, acks, zero) = ((last >> 2) as usize, last & 2 != 0, last & 1 == 0);
            let fits = framing.body_at() + body < MIN_FRAME && (!acks || frame::has_room_for_piggyback(framing, body));
            match frame::parse(&bytes, EtherType::DEFAULT) {
                Ok(parsed) => {
                    assert!(zero && fits, "{framing} took {last:#010b}");
                    assert_eq!((parsed.payload.len(), parsed.piggyback.is_some()), (body, acks));
                }
                Err(reason) => assert!(reason == Reason::Length && !(zero && fits), "{framing} refused {last:#010b}"),
            }
        }
    }
}

#[test]
fn words_that_the_body_does_not_hold_are_refused() {
    for framing in Framing::ALL {
        for words in 1..=7 {
            let body = words as usize * WORD_BYTES;
            let enough = frame::parse(&message(framing, Kind::Request, words, body, None).emit(), EtherType::DEFAULT)
                .map(|parsed| parsed.words.len());
            // `bare` has no number for six words or more.
            let too_many = if framing == Framing::Bare { Reason::Kind } else { Reason::Words };
            assert_eq!(enough, if words as usize <= HEAD_WORDS { Ok(body) } else { Err(too_many) });
            let bytes = message(framing, Kind::Request, words, body - 1, None).emit();
            let too_short = if words as usize <= HEAD_WORDS { Reason::Words } else { too_many };
            assert_eq!(frame::parse(&bytes, EtherType::DEFAULT), Err(too_short));
        }
    }
}
