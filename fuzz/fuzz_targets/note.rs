//! Any bytes as what the two sides of a measurement of am-bench say to each other.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "only notes are wanted")]
#[path = "../../bench/src/loss.rs"]
mod loss;
#[allow(dead_code, reason = "only notes are wanted")]
#[path = "../../bench/src/measure/note.rs"]
mod note;

/// What notes need of am-bench's own, which is a program and no library.
mod plan {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Bench {
        Latency,
        Bandwidth,
        Rate,
    }

    impl Bench {
        pub(crate) const fn code(self) -> u8 {
            self as u8
        }

        pub(crate) fn from_code(code: u8) -> Option<Bench> {
            [Bench::Latency, Bench::Bandwidth, Bench::Rate].into_iter().find(|bench| bench.code() == code)
        }
    }
}

mod size {
    pub(crate) const LARGEST: usize = 1 << 28;
}

fuzz_target!(|bytes: &[u8]| {
    if let Some(note) = note::Note::from_bytes(bytes) {
        assert_eq!(note::Note::from_bytes(&note.to_bytes()), Some(note));
    }
});
