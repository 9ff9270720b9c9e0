//! Checks that a sender keeps each message until the receiver has accepted it, in the incarnation with which the flow
//! was opened.

use super::{Checked, Violation};

/// The messages of one flow and class, while both nodes are in the incarnations in which they opened the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptCount {
    /// The number of the flow.
    pub flow: u64,
    /// Messages admitted at the sender.
    pub sent: usize,
    /// Messages of these that were delivered.
    pub delivered: usize,
    /// Messages of these that the sender still keeps.
    pub kept: usize,
}

impl KeptCount {
    /// Check the counts, when no message waits at the receiver to be delivered.
    ///
    /// # Errors
    /// Some messages are neither delivered nor kept.
    pub fn check(&self) -> Checked {
        let KeptCount { flow, sent, delivered, kept } = *self;
        if sent <= delivered + kept {
            return Ok(());
        }
        let gone = sent - delivered - kept;
        let what =
            format!("flow {flow:#x}: {gone} messages count as acknowledged, but their receiver never accepted them");
        Err(Violation::new("kept", what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_for_nothing_is_seen() {
        let kept = KeptCount { flow: 1, sent: 5, delivered: 3, kept: 2 };
        assert_eq!(kept.check(), Ok(()));
        assert_eq!(KeptCount { delivered: 4, ..kept }.check(), Ok(()), "not acknowledged yet");
        assert!(KeptCount { kept: 1, ..kept }.check().is_err());
    }
}
