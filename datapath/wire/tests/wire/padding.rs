//! What a frame does not use is zero: nothing that lay in the memory before
//! goes out on the wire.

use am_wire::frame::{MIN_FRAME, has_room_for_piggyback};
use proptest::prelude::*;

use crate::any;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn unused_padding_is_zero(message in any::message()) {
        let bytes = message.emit();
        let end = message.framing.body_at() + message.body.len();
        if end >= MIN_FRAME {
            prop_assert_eq!(bytes.len(), end, "no padding, no trailer");
            return Ok(());
        }
        let rides = message.piggyback.is_some() && has_room_for_piggyback(message.framing, message.body.len());
        let trailer = if rides { MIN_FRAME - 9 } else { MIN_FRAME - 1 };
        prop_assert!(bytes[end..trailer].iter().all(|&byte| byte == 0));
        prop_assert_eq!(bytes[MIN_FRAME - 1] >> 2, message.body.len() as u8);
    }

    /// The body alone decides what is in a frame: not what was there before.
    #[test]
    fn two_memories_one_frame(message in any::message(), stale: u8) {
        let mut space = vec![stale; 9_100];
        let body = am_wire::frame::body(&mut space, message.framing, message.body.len());
        body.expect("there is space").copy_from_slice(&message.body);
        let length = am_wire::frame::emit(
            &mut space, message.framing, &message.link, &message.header, message.body.len(), message.piggyback.as_ref(),
        ).expect("there is space");
        prop_assert_eq!(&space[..length], &message.emit()[..]);
    }
}
