//! Several messages in one body: back and forth, and what makes no sense.

use am_wire::coalesced::{Body, MESSAGE_HEADER, Writer};
use am_wire::frame::{ParsedFrame, parse};
use am_wire::{Class, HEAD_WORDS, Header, Kind, Reason, WORD_BYTES};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::any;

/// Handler, number of words, words and payload.
type Message = (u8, u8, Vec<u8>);

fn message() -> impl Strategy<Value = Message> {
    let body = |words: u8| vec(any::<u8>(), words as usize * WORD_BYTES..256);
    (any::<u8>(), 0..=HEAD_WORDS as u8).prop_flat_map(move |(handler, words)| (Just(handler), Just(words), body(words)))
}

fn body_of(messages: &[Message]) -> Vec<u8> {
    let mut space = vec![any::STALE; messages.iter().map(|(_, _, body)| MESSAGE_HEADER + body.len()).sum()];
    let mut writer = Writer::new(&mut space);
    for (handler, words, body) in messages {
        assert!(writer.push(*handler, *words, body), "there is space");
    }
    assert!(!writer.push(0, 0, &[]), "no space is left");
    assert_eq!(writer.length(), space.len());
    space
}

fn read(body: &[u8]) -> Result<Vec<Message>, Reason> {
    let parts = Body::from_body(body)?;
    let read = parts.items().map(|item| (item.handler, item.words, body[item.at..item.at + item.length].to_vec()));
    Ok(read.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn comes_back_as_it_was_written(messages in vec(message(), 1..20)) {
        prop_assert_eq!(read(&body_of(&messages)), Ok(messages));
    }

    /// Cut where a message ends it is a shorter body: the frame's length tells.
    #[test]
    fn cut_within_a_message_or_longer_it_is_refused(messages in vec(message(), 1..6), more in 1..MESSAGE_HEADER) {
        let mut body = body_of(&messages);
        let ends: Vec<_> = (0..=messages.len()).map(|count| body_of(&messages[..count]).len()).collect();
        for length in 0..=body.len() {
            let whole = length > 0 && ends.contains(&length);
            prop_assert_eq!(read(&body[..length]).is_ok(), whole, "{} bytes", length);
        }
        body.extend(vec![0; more]);
        prop_assert_eq!(read(&body), Err(Reason::Body));
    }

    /// What does not fit is not written at all.
    #[test]
    fn is_never_written_past_its_space(messages in vec(message(), 1..12), space in 0usize..900) {
        let mut memory = vec![any::STALE; 1200];
        let mut writer = Writer::new(&mut memory[..space]);
        let fit = messages.iter().take_while(|(handler, words, body)| writer.push(*handler, *words, body)).count();
        let length = writer.length();
        prop_assert_eq!(length, body_of(&messages[..fit]).len());
        prop_assert!(length <= space);
        prop_assert!(memory[length..].iter().all(|&byte| byte == any::STALE));
    }

    /// In a frame, in every framing, with a trailer and without.
    #[test]
    fn crosses_in_a_frame(mut message in any::message(), messages in vec(message(), 1..8)) {
        let kind = Kind::Coalesced(Class::Reply);
        message.header = Header { kind, words: 0, handler: 0, flow: am_wire::Flow::new(9).unwrap(), ..message.header };
        message.body = body_of(&messages);
        let frame = message.emit();
        let parsed: ParsedFrame<'_> = parse(&frame, message.link.ethertype).unwrap();
        prop_assert_eq!(parsed.header, message.arriving());
        let parts = Body::parse(&parsed).unwrap();
        let at = parsed.framing.body_at();
        for (item, (handler, words, body)) in parts.items().zip(&messages) {
            prop_assert_eq!((item.handler, item.words), (*handler, *words));
            prop_assert_eq!(&frame[at + item.at..][..item.length], &body[..]);
        }
        prop_assert_eq!(parts.items().count(), messages.len());
    }
}

#[test]
fn an_empty_body_and_impossible_words_are_refused() {
    assert_eq!(read(&[]), Err(Reason::Body));
    assert_eq!(read(&[0, 0, 1, 0]), Ok(vec![(1, 0, Vec::new())]), "a message of nothing is one");
    assert_eq!(read(&[0, 7, 1, 1, 0, 0, 0, 0, 0, 0, 0]), Err(Reason::Words), "a word has eight bytes");
    assert_eq!(read(&body_of(&[(1, 6, vec![0; 48])])), Err(Reason::Words), "five words, of a head, are the most");
    assert_eq!(read(&[0xff, 0xff, 1, 0, 1, 2, 3]), Err(Reason::Body), "longer than the frame");
}

#[test]
fn words_in_the_header_of_a_coalesced_frame_are_refused() {
    // `bare` has no words in the header of a coalesced frame.
    let framing = am_wire::Framing::Split;
    let mut space = [0; 60];
    let flow = am_wire::Flow::new(9).unwrap();
    let header = Header { kind: Kind::Coalesced(Class::Request), flow, nonce: 0, handler: 0, words: 1, seq: 0 };
    let link = am_wire::frame::LinkAddresses {
        to: am_wire::Address::BROADCAST,
        from: am_wire::Address::BROADCAST,
        ethertype: am_wire::EtherType::DEFAULT,
    };
    am_wire::frame::emit(&mut space, framing, &link, &header, 12, None).unwrap();
    let parsed = parse(&space, am_wire::EtherType::DEFAULT).unwrap();
    assert_eq!(Body::parse(&parsed), Err(Reason::Words));
}
