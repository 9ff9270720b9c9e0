//! Detects that a node's frames arrive on other queues, or damaged. A NIC may steer them to another queue, from which
//! the kernel cannot redirect them to the node's socket. It may also truncate frames or add bytes. The XDP program
//! drops and counts such frames, and this module reports it. Where a NIC truncates regularly in zero-copy mode, the
//! transport changes to copy mode (`reopen.rs`).

use std::time::{Duration, Instant};

/// The interval of the checks. If few frames were received, a check costs two system calls, each of which reads a counter of
/// each CPU.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A node that receives more frames than this in one interval is healthy, and its losses are not checked.
const MIN_HEALTHY_FRAMES: u64 = 1000;

/// Fewer lost frames than this of one kind, since the last good check, are not reported.
const MIN_LOST: u64 = 3;

/// The program's counter is read at every 16th check. There is one check a millisecond.
const CHECKS_PER_READING: u32 = 16;
/// Truncated frames are counted over this many readings.
const READINGS_PER_PERIOD: u32 = 64;
/// This many truncated frames in a period show that the NIC truncates. A NIC that does not has none in its lifetime.
const MIN_TRUNCATED: u64 = 4;

pub(crate) struct RxWatch {
    queue: u32,
    interface: String,
    /// Advice for frames that arrive on other queues.
    advice: String,
    next_check: Instant,
    /// Frames received until the last check.
    received: u64,
    wrong_queue: Loss,
    wrong_length: Loss,
}

/// One kind of loss, and its report.
#[derive(Default)]
struct Loss {
    /// Frames received, and lost, at the last good check.
    baseline: (u64, u64),
    error: Option<String>,
}

impl Loss {
    /// Compare frames lost with frames received since the last good check. `report` formats the report from the two
    /// counts: lost frames, then received frames.
    fn compare(&mut self, received: u64, lost: u64, report: impl FnOnce(u64, u64) -> String) {
        let received_since = received.saturating_sub(self.baseline.0);
        let lost_since = lost.saturating_sub(self.baseline.1);
        if received_since >= lost_since {
            *self = Loss { baseline: (received, lost), error: None };
        } else if lost_since >= MIN_LOST && self.error.is_none() {
            let error = report(lost_since, received_since);
            tracing::warn!("{error}");
            self.error = Some(error);
        }
    }
}

impl RxWatch {
    pub(crate) fn new(interface: &str, queue: u32, advice: String) -> RxWatch {
        RxWatch {
            queue,
            interface: interface.to_owned(),
            advice,
            next_check: Instant::now() + CHECK_INTERVAL,
            received: 0,
            wrong_queue: Loss::default(),
            wrong_length: Loss::default(),
        }
    }

    /// Check, if the interval has passed. `lost` returns how many frames for the node the program dropped: those on other
    /// queues, and those of another length than their headers say. Returns the current error: why the node receives
    /// little or nothing.
    pub(crate) fn check(&mut self, received: u64, lost: impl FnOnce() -> Option<[u64; 2]>) -> Option<&str> {
        let now = Instant::now();
        if now >= self.next_check {
            self.next_check = now + CHECK_INTERVAL;
            if received.saturating_sub(self.received) > MIN_HEALTHY_FRAMES {
                (self.wrong_queue.error, self.wrong_length.error) = (None, None);
            } else if let Some(lost) = lost() {
                self.compare(received, lost);
            }
            self.received = received;
        }
        self.wrong_queue.error.as_deref().or(self.wrong_length.error.as_deref())
    }

    fn compare(&mut self, received: u64, [elsewhere, altered]: [u64; 2]) {
        let RxWatch { interface, queue, advice, wrong_queue, wrong_length, .. } = self;
        wrong_queue.compare(received, elsewhere, |lost, received| {
            format!(
                "{lost} frames for this node came in on other queues of {interface} and were lost, \
                 and {received} on its own queue {queue}: {advice}"
            )
        });
        wrong_length.compare(received, altered, |lost, received| {
            format!(
                "{lost} frames came to {interface} longer or shorter than they were sent, and {received} as they were \
                 sent: a NIC truncates them, pads them, or adds bytes. If it adds the check sequence: \
                 `ethtool -K {interface} rx-fcs off`. If it truncates: a smaller MTU at all ends. docs/nics.md describes \
                 each driver"
            )
        });
    }
}

/// Detects a NIC that truncates frames.
#[derive(Debug, Default)]
pub(crate) struct TruncationDetector {
    checks: u32,
    baseline: u64,
}

impl TruncationDetector {
    /// Whether it is time to read the counter.
    pub(crate) fn is_due(&mut self) -> bool {
        self.checks = self.checks.wrapping_add(1);
        self.checks.is_multiple_of(CHECKS_PER_READING)
    }

    /// Whether enough frames were truncated to show that the NIC does it regularly. `cut` is the program's counter.
    pub(crate) fn is_systematic(&mut self, cut: u64) -> bool {
        let many = cut - self.baseline >= MIN_TRUNCATED;
        if self.checks.is_multiple_of(CHECKS_PER_READING * READINGS_PER_PERIOD) {
            self.baseline = cut;
        }
        many
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch() -> RxWatch {
        let advice = "`ethtool -L eth1 combined 1`".to_owned();
        RxWatch { next_check: Instant::now(), ..RxWatch::new("eth1", 1, advice) }
    }

    fn look(watch: &mut RxWatch, received: u64, wrong: u64) -> Option<&str> {
        watch.next_check = Instant::now();
        watch.check(received, || Some([wrong, 0]))
    }

    #[test]
    fn a_queue_that_nothing_is_steered_to_is_named_with_what_helps() {
        let mut watch = watch();
        assert_eq!(look(&mut watch, 0, 2), None, "an accident");
        let error = look(&mut watch, 0, 5).unwrap().to_owned();
        assert!(
            error.contains("5 frames") && error.contains("of eth1") && error.contains("0 on its own queue 1"),
            "{error}"
        );
        assert!(error.ends_with("`ethtool -L eth1 combined 1`"), "{error}");
        assert_eq!(look(&mut watch, 0, 99), Some(&*error), "it is reported once");
        assert_eq!(look(&mut watch, 0, 99), Some(&*error), "no frame, no new report");
        assert_eq!(look(&mut watch, 200, 99), None, "it is steered here now");
        assert_eq!(look(&mut watch, 200, 101), None);
        assert!(look(&mut watch, 200, 104).is_some(), "and no longer");
    }

    #[test]
    fn a_node_that_receives_well_is_not_asked() {
        let mut watch = watch();
        assert_eq!(watch.check(MIN_HEALTHY_FRAMES + 1, || panic!("a system call")), None);
        watch.next_check = Instant::now();
        assert_eq!(watch.check(MIN_HEALTHY_FRAMES + 1, || Some([7, 7])), None, "lost before, while more came");
        assert!(watch.next_check > Instant::now());
        assert_eq!(watch.check(MIN_HEALTHY_FRAMES + 1, || panic!("too often")), None);
    }

    #[test]
    fn the_larger_share_of_a_few_frames_elsewhere_is_said() {
        let mut watch = watch();
        assert_eq!(look(&mut watch, 10, 9), None);
        assert!(look(&mut watch, 20, 40).is_some());
        assert_eq!(look(&mut watch, 60, 45), None);
    }

    #[test]
    fn frames_that_a_nic_adds_to_are_named_with_what_helps() {
        let mut watch = watch();
        let mut look = |received, altered| {
            watch.next_check = Instant::now();
            watch.check(received, || Some([0, altered])).map(str::to_owned)
        };
        assert_eq!(look(0, 2), None, "an accident");
        let error = look(1, 20).unwrap();
        assert!(error.starts_with("20 frames came to eth1 longer or shorter") && error.contains("and 1 as"), "{error}");
        assert!(error.contains("`ethtool -K eth1 rx-fcs off`") && error.contains("docs/nics.md"), "{error}");
        assert_eq!(look(30, 25), None, "most are whole");
        assert_eq!(look(60, 45), None);
    }

    /// Readings until truncation is detected, by the truncated frames in each.
    fn readings(each: impl Fn(u32) -> u64) -> Option<u32> {
        let (mut cuts, mut cut) = (TruncationDetector::default(), 0);
        (1..=500).find(|&reading| {
            let looks = (1..=CHECKS_PER_READING).filter(|_| cuts.is_due()).count();
            assert_eq!(looks, 1);
            cut += each(reading);
            cuts.is_systematic(cut)
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
