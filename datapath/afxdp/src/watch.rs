//! Whether a node's frames come in on its queue. A NIC may give them to another, where the kernel cannot redirect
//! them to its socket: the XDP program counts them, and the node says so.

use std::time::{Duration, Instant};

/// Looked at so often, and then it costs a system call for each processor's count, where little was received.
const PAUSE: Duration = Duration::from_secs(1);

/// A node that receives more than that in [`PAUSE`] has a queue that is steered to.
const FEW: u64 = 1000;

/// Frames on other queues, since all was last well, that are no accident.
const SOME: u64 = 3;

pub(crate) struct Watch {
    queue: u32,
    interface: String,
    /// What helps.
    advice: String,
    next: Instant,
    /// Frames received when it was last looked at.
    received: u64,
    /// Received, and on other queues, when all was last well.
    well: (u64, u64),
    trouble: Option<String>,
}

impl Watch {
    pub(crate) fn new(interface: &str, queue: u32, advice: String) -> Watch {
        let (interface, next) = (interface.to_owned(), Instant::now() + PAUSE);
        Watch { queue, interface, advice, next, received: 0, well: (0, 0), trouble: None }
    }

    /// Why the node receives nothing, or hardly anything: its frames come in on other queues.
    pub(crate) fn look(&mut self, received: u64, wrong: impl FnOnce() -> Option<u64>) -> Option<&str> {
        let now = Instant::now();
        if now >= self.next {
            self.next = now + PAUSE;
            if received.saturating_sub(self.received) > FEW {
                self.trouble = None;
            } else if let Some(wrong) = wrong() {
                self.compare(received, wrong);
            }
            self.received = received;
        }
        self.trouble.as_deref()
    }

    fn compare(&mut self, received: u64, wrong: u64) {
        let (here, elsewhere) = (received.saturating_sub(self.well.0), wrong.saturating_sub(self.well.1));
        if here >= elsewhere {
            self.well = (received, wrong);
            self.trouble = None;
        } else if elsewhere >= SOME && self.trouble.is_none() {
            let Watch { interface, queue, advice, .. } = &*self;
            let trouble = format!(
                "{elsewhere} frames for this node came in on other queues of {interface}, where they are lost, \
                 and {here} on queue {queue}, which is its own: {advice}"
            );
            tracing::warn!("{trouble}");
            self.trouble = Some(trouble);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch() -> Watch {
        let advice = "`ethtool -L eth1 combined 1`".to_owned();
        Watch { next: Instant::now(), ..Watch::new("eth1", 1, advice) }
    }

    fn look(watch: &mut Watch, received: u64, wrong: u64) -> Option<&str> {
        watch.next = Instant::now();
        watch.look(received, || Some(wrong))
    }

    #[test]
    fn a_queue_that_nothing_is_steered_to_is_named_with_what_helps() {
        let mut watch = watch();
        assert_eq!(look(&mut watch, 0, 2), None, "an accident");
        let said = look(&mut watch, 0, 5).unwrap().to_owned();
        assert!(said.contains("5 frames") && said.contains("of eth1") && said.contains("0 on queue 1"), "{said}");
        assert!(said.ends_with("`ethtool -L eth1 combined 1`"), "{said}");
        assert_eq!(look(&mut watch, 0, 99), Some(&*said), "it is said once");
        assert_eq!(look(&mut watch, 0, 99), Some(&*said), "a silence says nothing new");
        assert_eq!(look(&mut watch, 200, 99), None, "it is steered here now");
        assert_eq!(look(&mut watch, 200, 101), None);
        assert!(look(&mut watch, 200, 104).is_some(), "and no longer");
    }

    #[test]
    fn a_node_that_receives_well_is_not_asked() {
        let mut watch = watch();
        assert_eq!(watch.look(FEW + 1, || panic!("a system call")), None);
        watch.next = Instant::now();
        assert_eq!(watch.look(FEW + 1, || Some(7)), None, "lost before, while more came");
        assert!(watch.next > Instant::now());
        assert_eq!(watch.look(FEW + 1, || panic!("too often")), None);
    }

    #[test]
    fn the_larger_share_of_a_few_frames_elsewhere_is_said() {
        let mut watch = watch();
        assert_eq!(look(&mut watch, 10, 9), None);
        assert!(look(&mut watch, 20, 40).is_some());
        assert_eq!(look(&mut watch, 60, 45), None);
    }
}
