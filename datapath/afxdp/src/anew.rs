//! The state that a transport needs to reopen itself.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use crate::interface::Interface;
use crate::options::Options;

/// The program's counter is read at every 16th check. There is one check a millisecond.
const LOOKS: u32 = 16;
/// Truncated frames are counted over this many readings.
const READINGS: u32 = 64;
/// This many truncated frames in a period show that the NIC truncates. A NIC that does not has none in its lifetime.
const MANY: u64 = 4;

/// What a transport needs to reopen itself.
pub(crate) struct Anew {
    pub(crate) options: Options,
    pub(crate) interface: Interface,
    pub(crate) wake: Arc<OwnedFd>,
    /// The largest credit that was announced.
    pub(crate) promised: usize,
    pub(crate) cuts: Cuts,
    /// When to look again for an interface that is gone.
    pub(crate) next: Instant,
}

impl Anew {
    pub(crate) fn new(options: &Options, interface: Interface, wake: Arc<OwnedFd>) -> Anew {
        Anew { options: options.clone(), interface, wake, promised: 0, cuts: Cuts::default(), next: Instant::now() }
    }
}

/// Detects a NIC that truncates frames.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    looks: u32,
    before: u64,
}

impl Cuts {
    /// Whether it is time to read the counter.
    pub(crate) fn is_time(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        self.looks.is_multiple_of(LOOKS)
    }

    /// Whether so many frames were truncated that the NIC does it regularly. `cut` is the program's counter.
    pub(crate) fn is_habit(&mut self, cut: u64) -> bool {
        let many = cut - self.before >= MANY;
        if self.looks.is_multiple_of(LOOKS * READINGS) {
            self.before = cut;
        }
        many
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings until truncation is detected, with so many truncated frames in each.
    fn readings(each: impl Fn(u32) -> u64) -> Option<u32> {
        let (mut cuts, mut cut) = (Cuts::default(), 0);
        (1..=500).find(|&reading| {
            let looks = (1..=LOOKS).filter(|_| cuts.is_time()).count();
            assert_eq!(looks, 1);
            cut += each(reading);
            cuts.is_habit(cut)
        })
    }

    #[test]
    fn many_at_once_are_a_habit_and_a_few_in_a_minute_are_none() {
        assert_eq!(readings(|_| 0), None);
        assert_eq!(readings(|_| 4), Some(1));
        assert_eq!(readings(|_| 1), Some(4));
        assert_eq!(readings(|reading| u64::from(reading.is_multiple_of(40))), None);
        assert_eq!(readings(|reading| if reading == 200 { 4 } else { 0 }), Some(200));
    }
}
