//! Any bytes as what the two sides of a measurement of am-bench say to each other.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "only control messages are wanted")]
#[path = "../../bench/measure/src/loss.rs"]
mod loss;
#[allow(dead_code, reason = "only control messages are wanted")]
#[path = "../../bench/measure/src/channel/control.rs"]
mod control;

/// What control messages need of the rest of am-measure, which depends on whole transports.
mod plan {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Bench {
        Latency,
        Bandwidth,
        Rate,
    }

    impl Bench {
        pub(crate) fn from_code(code: u8) -> Option<Bench> {
            [Bench::Latency, Bench::Bandwidth, Bench::Rate].into_iter().find(|bench| *bench as u8 == code)
        }
    }
}

mod size {
    pub(crate) const MAX_SIZE: usize = 1 << 28;
}

fuzz_target!(|bytes: &[u8]| {
    if let Some(message) = control::ControlMessage::from_bytes(bytes) {
        assert_eq!(control::ControlMessage::from_bytes(&message.to_bytes()), Some(message));
    }
});
