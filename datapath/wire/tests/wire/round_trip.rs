//! What goes in comes out.

use proptest::prelude::*;

use am_wire::{Ack, Acks, Framing, Seq, WORD_BYTES, frame};

use crate::any;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn a_frame_comes_back_as_it_was_written(message in any::message()) {
        let bytes = message.emit();
        let parsed = frame::parse(&bytes, message.link.ethertype).expect("it was just written");
        let (words, payload) = message.body.split_at(message.header.words as usize * WORD_BYTES);
        prop_assert_eq!(parsed.framing, message.framing);
        prop_assert_eq!(parsed.header, message.arriving());
        prop_assert_eq!((parsed.words, parsed.payload), (words, payload));
        let rides = message.piggyback.filter(|_| frame::has_room_for_piggyback(message.framing, message.body.len()));
        prop_assert_eq!(parsed.piggyback, rides);
        prop_assert_eq!(&bytes[..6], &message.link.to.0[..]);
        prop_assert_eq!(&bytes[6..12], &parsed.source.0[..]);
    }

    #[test]
    fn a_frame_without_room_is_refused_and_nothing_is_written(message in any::message(), short in 1usize..9_000) {
        let needs = frame::length(message.framing, message.body.len());
        let mut space = vec![any::STALE; needs.saturating_sub(short)];
        let result = frame::emit(
            &mut space, message.framing, &message.link, &message.header, message.body.len(), message.piggyback.as_ref(),
        );
        prop_assert_eq!(result, Err(frame::TooLong { needs }));
        prop_assert!(space.iter().all(|&byte| byte == any::STALE));
    }

    /// Word counts and handlers that no caller should pass never turn a frame
    /// into one of another kind or flow.
    #[test]
    fn a_wrong_count_of_words_is_refused_and_nothing_worse(mut message in any::message(), words in 6u8..) {
        message.header.words = words;
        let bytes = message.emit();
        match frame::parse(&bytes, message.link.ethertype) {
            Ok(parsed) => {
                let is_extended = message.framing == Framing::Bare && !matches!(parsed.header.kind, am_wire::Kind::Request | am_wire::Kind::Reply);
                prop_assert_eq!(parsed.header.words, if is_extended { 0 } else { words & 7 });
                prop_assert_eq!((parsed.header.kind, parsed.header.flow), (message.header.kind, message.header.flow));
            }
            Err(reason) if message.framing == Framing::Bare => prop_assert_eq!(reason, am_wire::Reason::Kind),
            Err(reason) => prop_assert_eq!(reason, am_wire::Reason::Words),
        }
    }

    /// As when a message is sent again.
    #[test]
    fn a_frame_can_be_written_anew_with_other_acknowledgements(message in any::message(), newer in any::piggyback()) {
        let mut bytes = message.emit();
        let any::Message { framing, link, header, ref body, .. } = message;
        let length = frame::emit(&mut bytes, framing, &link, &header, body.len(), Some(&newer));
        prop_assert_eq!(length, Ok(bytes.len()));
        prop_assert_eq!(bytes, any::Message { piggyback: Some(newer), ..message }.emit());
    }

    #[test]
    fn the_body_of_an_acknowledgement_round_trips(fields in any::<[(u32, u32, u64); 2]>()) {
        let acks = Acks { classes: fields.map(|(a, l, sack)| Ack { accepted: Seq(a), limit: Seq(l), sack }) };
        prop_assert_eq!(Acks::parse(&acks.to_bytes()), Ok(acks));
    }
}

/// In `plain` the sender's address is true; the other two replace it.
#[test]
fn only_plain_names_its_sender() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    runner
        .run(&any::message(), |message| {
            let bytes = message.emit();
            prop_assert_eq!(bytes[6..12] == message.link.from.0, message.framing == Framing::Plain);
            Ok(())
        })
        .expect("holds");
}
