//! What a program chooses for a group.

use crate::view::Time;

/// The bounds of a group. Every member has the same.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Credits: the most messages in flight. A message is in flight until every member that answers has handled it.
    pub capacity: usize,
    /// Messages that are kept for a member that does not answer. One that needs more is put out as too slow.
    pub kept: usize,
    /// The time between two beats of the sequencer.
    pub beat: Time,
    /// A sequencer that is silent for this time loses its work, and stays a member. A sequencer that hears no majority for this
    /// time stops by itself.
    pub silence: Time,
    /// A member that is silent for this time is put out.
    pub patience: Time,
    /// A member for which the group has waited for this time is put out. Without it the group waits as long as the member answers.
    pub slow: Option<Time>,
    /// A message without a number is sent again after this time.
    pub resend: Time,
    /// A gap is asked for after this time.
    pub gap: Time,
    /// The content of a message that is longer goes from its sender to all members; only its order passes the sequencer.
    pub apart: usize,
    /// The founder's choice: half of the members are a majority if the one with this name is among them. Without it a group of two
    /// does not go on when one of them crashes.
    pub tie_break: Option<String>,
    /// The sequencer's process gives the numbers, where its network could, too: for comparison.
    pub stamp_in_process: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            capacity: 1024,
            kept: 1 << 16,
            beat: Time::from_millis(20),
            silence: Time::from_millis(100),
            patience: Time::from_secs(5),
            slow: Some(Time::from_secs(5)),
            resend: Time::from_millis(10),
            gap: Time::from_millis(1),
            apart: 1024,
            tie_break: None,
            stamp_in_process: false,
        }
    }
}
