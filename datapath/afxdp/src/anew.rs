//! What a transport knows for when it has to be opened anew.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use crate::interface::Interface;
use crate::options::Options;

/// The program's counter is read once in so many looks, one of which comes each millisecond.
const LOOKS: u32 = 16;
/// Counts of that time are compared with those of so many readings before.
const READINGS: u32 = 64;
/// So many cut frames in it are no accident: where frames are whole, there are none in a lifetime.
const MANY: u64 = 4;

/// What it takes to open a transport anew.
pub(crate) struct Anew {
    pub(crate) options: Options,
    pub(crate) interface: Interface,
    pub(crate) wake: Arc<OwnedFd>,
    /// The most frames that were promised.
    pub(crate) promised: usize,
    pub(crate) cuts: Cuts,
    /// When an interface that is gone is looked for again.
    pub(crate) next: Instant,
}

impl Anew {
    pub(crate) fn new(options: &Options, interface: Interface, wake: Arc<OwnedFd>) -> Anew {
        Anew { options: options.clone(), interface, wake, promised: 0, cuts: Cuts::default(), next: Instant::now() }
    }
}

/// Looks out for frames that were cut.
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

    /// Whether so many frames were cut that it is the NIC's habit.
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

    /// How many readings it takes until it is a habit, with so many cut frames in each.
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
