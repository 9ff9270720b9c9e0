//! The messages between members.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::log::{Entry, Level};
use crate::view::{Epoch, Member, Number, View};

/// A message between two members.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// A sender to the sequencer: give this a number.
    Submit {
        epoch: Epoch,
        /// The sender's number for it. Each epoch begins with 0.
        seq: u32,
        level: Level,
        payload: Bytes,
    },
    /// The sequencer to all: this message has this place in the order.
    Stamped(Stamped),
    /// The sequencer to all, regularly.
    Beat(Beat),
    /// A member's progress: to the sequencer as the answer to a beat; to all when it holds a [`Level::Safe`] message.
    Ack(Ack),
    /// From member to member in a circle: what all before have consumed.
    Token { epoch: Epoch, round: u32, consumed: Number },
    /// Send me these numbers of the log of this epoch.
    Repair { epoch: Epoch, from: Number, to: Number },
    /// They are these.
    Repaired { epoch: Epoch, entries: Vec<Entry> },
    /// A candidate to all: seal your epoch, and promise to follow no candidate of a lower one.
    Propose { epoch: Epoch },
    /// The answer of a member that has sealed its epoch.
    Promise { epoch: Epoch, promise: Promise },
    /// The answer of a member that has promised to follow another, or that is in a later view.
    Refuse { promised: Epoch },
    /// A candidate with enough promises: this is the next view.
    NewView(NewView),
    /// A member has the new view and all that its log begins with.
    Installed { epoch: Epoch },
    /// The sequencer ends its work. The next candidate need not wait.
    Resign { epoch: Epoch },
    /// A process that wants to be a member. Members forward it to the sequencer.
    Join {
        member: Member,
        /// What it holds, if it has the state.
        held: Option<Number>,
    },
    /// A member that has no use for what it holds asks for the state with which an epoch's log goes on.
    NeedState { epoch: Epoch },
    /// The state that a member begins with.
    State(State),
    /// A member wants to leave.
    Leave,
    /// The receiver is not a member of this epoch's view.
    PutOut { epoch: Epoch, why: PutOut },
}

/// A message with its number, as the sequencer sends it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stamped {
    /// The epoch.
    pub epoch: Epoch,
    /// Its place in the order.
    pub number: Number,
    /// The sender's slot in the view.
    pub sender: u16,
    /// The sender's number for it.
    pub seq: u32,
    /// Messages of this sender with lower numbers may be stamped.
    pub limit: u32,
    /// When it is delivered.
    pub level: Level,
    /// Its content.
    pub payload: Bytes,
}

/// What the sequencer says regularly.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Beat {
    /// The epoch. Its view is current.
    pub epoch: Epoch,
    /// Counts beats.
    pub beat: u32,
    /// All numbers before this one were given.
    pub next: Number,
    /// All members have all before this one.
    pub freed: Number,
    /// Each majority of the view has a member that holds all before this one.
    pub safe: Number,
    /// For each slot: messages of this sender with lower numbers may be stamped.
    pub limits: Vec<u32>,
}

/// A member's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ack {
    /// The epoch of the view that the member has installed.
    pub epoch: Epoch,
    /// The beat that it answers, or the last one.
    pub beat: u32,
    /// It holds all before this number.
    pub held: Number,
    /// Its program has handled all before this number.
    pub consumed: Number,
}

/// What a member tells the candidate that it follows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Promise {
    /// The views that may be current. The last one is the one that it has installed.
    pub chain: Vec<View>,
    /// The numbers with which the last epochs began.
    pub history: Vec<(Epoch, Number)>,
    /// It holds all before this number,
    pub held: Number,
    /// and these ranges.
    pub ranges: Vec<(Number, Number)>,
}

/// The next view.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NewView {
    /// The view.
    pub view: View,
    /// The views before it that may be current. A majority of each has to install this one.
    pub chain: Vec<View>,
    /// The numbers with which epochs began, this one's last. A message of an epoch is part of the order if its number is
    /// below the beginning of the next epoch.
    pub history: Vec<(Epoch, Number)>,
}

impl NewView {
    /// Where the epoch begins: all before this number is decided.
    pub(crate) fn base(&self) -> Number {
        self.history.last().map_or(0, |(_, base)| *base)
    }
}

/// The state that a member begins with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct State {
    /// It is part of the log of this epoch,
    pub epoch: Epoch,
    /// and was taken in this view.
    pub view: View,
    /// The numbers with which the last epochs began.
    pub history: Vec<(Epoch, Number)>,
    /// It contains all messages before this one.
    pub number: Number,
    /// The program's own.
    pub state: Bytes,
}

/// Why a member was put out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PutOut {
    /// It had asked for it.
    Left,
    /// It did not answer for the group's patience.
    Silent,
    /// It handled messages more slowly than the group waits for.
    TooSlow,
    /// It is not in the view. The reason is not known any more.
    NotInView,
}
