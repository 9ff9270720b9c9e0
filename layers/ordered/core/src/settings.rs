//! What a program chooses for a group.

use am_wire::stamp::SENDERS;

use crate::view::Time;

/// How a message with its number reaches the members, where their transports carry frames of the group. Elsewhere messages go by the
/// connections between members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dissemination {
    /// The sequencer sends one multicast.
    #[default]
    Multicast,
    /// The sequencer sends each member a copy: for networks that do not forward the group's multicasts.
    Copies,
    /// The sequencer sends the number back to the sender, and the sender sends one multicast. A message passes the sequencer's link
    /// once less, and takes a hop more.
    Fetch,
}

/// The bounds of a group. Every member should have the same: the sequencer's are valid, and which member that is changes. A value that cannot work is
/// replaced by the nearest that can.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Credits: the most messages in flight, and at least two for each member. A message is in flight until every member that answers has
    /// handled it. 1,024 by default.
    pub capacity: usize,
    /// Messages that are kept for a member that does not answer, not fewer than the capacity, and of 1 GiB in all at most. One that needs
    /// more is put out as too slow. 65,536 by default.
    pub kept: usize,
    /// The time between two beats of the sequencer: a third of `silence` at most. 20 ms by default.
    pub beat: Time,
    /// A sequencer that is silent for this time loses its work, and stays a member. A sequencer that hears no majority for this
    /// time stops by itself. 100 ms by default.
    pub silence: Time,
    /// A member that is silent for this time is put out. 5 s by default.
    pub patience: Time,
    /// A member for which the group has waited for this time is put out. Without it the group waits as long as the member answers. 5 s by default.
    pub slow: Option<Time>,
    /// A message without a number is sent again after this time. 10 ms by default.
    pub resend: Time,
    /// A gap is asked for after this time. 1 ms by default.
    pub gap: Time,
    /// The content of a message that is longer, in bytes, goes from its sender to all members; only its order passes the sequencer. 1,024 by default.
    pub apart: usize,
    /// The founder's choice: half of the members are a majority if the one with this name is among them. Without it a group of two
    /// does not go on when one of them crashes. `None` by default.
    pub tie_break: Option<String>,
    /// The sequencer's process gives the numbers, where its network could, too: for comparison. `false` by default.
    pub stamp_in_process: bool,
    /// How messages with their numbers reach the members. One multicast by default.
    pub dissemination: Dissemination,
}

/// A process needs this time to answer at all.
const SHORTEST_PATIENCE: Time = Time::from_millis(100);
/// A sequencer that does nothing else can be silent for this time.
const SHORTEST_SILENCE: Time = Time::from_millis(10);
/// Each beat is answered by all.
const SHORTEST_BEAT: Time = Time::from_millis(1);
/// Beats are at least as often: processes join at a beat, and credits return.
const LONGEST_BEAT: Time = Time::from_secs(1);
/// Beats in the time for which a sequencer may be silent, at least: one may be lost.
const BEATS: u32 = 3;
/// No time of a group is longer, in place of "never".
const LONGEST: Time = Time::from_secs(1 << 30);
/// The most messages of either kind.
const MOST: usize = 1 << 24;

impl Settings {
    /// The same within the bounds of what works: credits, and as many messages kept as may be in flight.
    pub(crate) fn within_bounds(mut self) -> Settings {
        self.capacity = self.capacity.clamp(1, MOST);
        self.kept = self.kept.clamp(self.capacity.max(2 * SENDERS), MOST);
        for time in [&mut self.silence, &mut self.patience, &mut self.resend, &mut self.gap] {
            *time = LONGEST.min(*time);
        }
        self.slow = self.slow.map(|slow| slow.min(LONGEST));
        self.silence = self.silence.max(SHORTEST_SILENCE);
        self.beat = self.beat.clamp(SHORTEST_BEAT, LONGEST_BEAT.min(self.silence / BEATS));
        self.patience = self.patience.max(self.silence).max(SHORTEST_PATIENCE);
        self
    }
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
            dissemination: Dissemination::Multicast,
        }
    }
}
