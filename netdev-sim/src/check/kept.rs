//! A message stays with its sender until the receiver has it: what is
//! acknowledged was accepted, by this very run of the receiver.

use super::{Checked, Violation};

/// One flow and class, while both halves are as they were when it was set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The number of the flow.
    pub flow: u64,
    /// Messages that the sender was allowed to send.
    pub sent: usize,
    /// Of these, delivered.
    pub delivered: usize,
    /// Of these, still kept by the sender.
    pub kept: usize,
}

impl Kept {
    /// Nothing waits at the receiver to be delivered.
    ///
    /// # Errors
    /// Some messages are neither delivered nor kept.
    pub fn check(&self) -> Checked {
        let Kept { flow, sent, delivered, kept } = *self;
        if sent <= delivered + kept {
            return Ok(());
        }
        let gone = sent - delivered - kept;
        let what = format!("flow {flow:#x}: {gone} messages count as acknowledged, and their receiver never had them");
        Err(Violation::new("kept", what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_for_nothing_is_seen() {
        let kept = Kept { flow: 1, sent: 5, delivered: 3, kept: 2 };
        assert_eq!(kept.check(), Ok(()));
        assert_eq!(Kept { delivered: 4, ..kept }.check(), Ok(()), "not acknowledged yet");
        assert!(Kept { kept: 1, ..kept }.check().is_err());
    }
}
