//! The messages between members.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::log::{Content, Entry, Level};
use crate::view::{Epoch, MOST_NUMBER, Member, MemberId, Number, View};

/// A message between two processes of a group.
///
/// | from | to | messages |
/// | --- | --- | --- |
/// | a member | the sequencer | `Submit`, `Ack`, `Leave`, `Installed` |
/// | the sequencer | all | `Stamped`, `Beat`, `Resign` |
/// | a member | all | `Data`, `Ack` of a safe message |
/// | a member | any member | `Token`, `Repair`, `Repaired`, `NeedData`, `Data`, `NeedState`, `Piece`, `PieceAck`, `State`, `CatchUp`, `IsAt` |
/// | a candidate | all | `Propose`, `NewView` |
/// | a member | a candidate | `Promise`, `Refuse`, `Installed` |
/// | a process that joins | any member | `Join` |
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// Give this message a number.
    Submit {
        /// The epoch in which it is sent.
        epoch: Epoch,
        /// The sender's number for it. Each epoch begins anew, and numbers wrap.
        seq: u32,
        /// When it is delivered.
        level: Level,
        /// Its content.
        content: Content,
    },
    /// A message has this place in the order.
    Stamped(Stamped),
    /// The content of a long message, from its sender or another member that has it.
    Data {
        /// The message's sender.
        sender: MemberId,
        /// The sender's id for it.
        id: u64,
        /// The content.
        payload: Bytes,
    },
    /// The sequencer lives, and what it knows.
    Beat(Beat),
    /// A member's progress.
    Ack(Ack),
    /// What all members before have handled. It goes from member to member in a circle.
    Token {
        /// The epoch.
        epoch: Epoch,
        /// Counts tokens.
        round: u32,
        /// All of them have handled all before this number.
        consumed: Number,
    },
    /// Send me a part of an epoch's log.
    Repair {
        /// The epoch.
        epoch: Epoch,
        /// The first missing number.
        from: Number,
        /// The first that is not asked for.
        to: Number,
    },
    /// Send me this content.
    NeedData {
        /// The message's sender.
        sender: MemberId,
        /// The sender's id for it.
        id: u64,
        /// The message's place.
        number: Number,
    },
    /// A part of an epoch's log is this.
    Repaired {
        /// The epoch.
        epoch: Epoch,
        /// What the sender holds of it. Contents of long messages are asked for one by one.
        entries: Vec<Entry>,
        /// Its log begins with this number. It has those before as a part of its state, if at all.
        first: Number,
    },
    /// Seal your epoch, and promise to follow no candidate of a lower one than this.
    Propose {
        /// The candidate's epoch.
        epoch: Epoch,
    },
    /// A member has sealed its epoch.
    Promise {
        /// The candidate's epoch.
        epoch: Epoch,
        /// What the member has.
        promise: Promise,
    },
    /// A member follows another candidate, or hears the sequencer.
    Refuse {
        /// The highest epoch that it has promised.
        promised: Epoch,
    },
    /// This is the next view.
    NewView(NewView),
    /// A member has the new view and all that its log begins with.
    Installed {
        /// The view's epoch.
        epoch: Epoch,
    },
    /// The sequencer, or a candidate, ends its work. The next candidate need not wait.
    Resign {
        /// Its epoch.
        epoch: Epoch,
    },
    /// A process wants to be a member. Members forward it to the sequencer.
    Join {
        /// The process.
        member: Member,
        /// What it holds, if it has the state.
        held: Option<Number>,
    },
    /// A member has no use for what it holds, and asks for a state.
    NeedState {
        /// The epoch whose log goes on with that state.
        epoch: Epoch,
    },
    /// How far is the order? A member reads.
    CatchUp {
        /// The epoch in which it is asked.
        epoch: Epoch,
        /// The asker's number for the question.
        id: u64,
    },
    /// The answer.
    IsAt {
        /// The epoch of the question.
        epoch: Epoch,
        /// Its number.
        id: u64,
        /// What is behind this place was not delivered anywhere when the question arrived, as far as this member can know.
        number: Number,
    },
    /// The state that a member begins with.
    State(State),
    /// A piece of such a state, if it is long.
    Piece(Piece),
    /// All pieces before one are here.
    PieceAck {
        /// The giver's number for the state.
        id: u64,
        /// The next piece.
        next: u64,
    },
    /// A member wants to leave, or a process that has the state and is in no view yet.
    Leave,
    /// The receiver is not a member of this epoch's view.
    PutOut {
        /// The epoch.
        epoch: Epoch,
        /// The reason.
        why: Ended,
    },
}

impl Message {
    /// Whether a group can have got as far as it says. A stranger may say anything.
    pub(crate) fn is_possible(&self) -> bool {
        let are_possible = |numbers: &[Number]| numbers.iter().all(|number| *number <= MOST_NUMBER);
        let is_history = |history: &[(Epoch, Number)]| {
            history.iter().all(|(epoch, begin)| epoch.is_possible() && are_possible(&[*begin]))
        };
        let is_chain = |chain: &[View]| chain.iter().all(View::is_possible);
        match self {
            Message::Stamped(stamped) => stamped.is_possible(),
            Message::Beat(Beat { epoch, next, freed, safe, .. }) => {
                epoch.is_possible() && are_possible(&[*next, *freed, *safe])
            }
            Message::Ack(Ack { epoch, held, consumed, .. }) => epoch.is_possible() && are_possible(&[*held, *consumed]),
            Message::IsAt { epoch, number, .. } => epoch.is_possible() && are_possible(&[*number]),
            Message::Token { epoch, consumed, .. } => epoch.is_possible() && are_possible(&[*consumed]),
            Message::Repair { epoch, from, to } => epoch.is_possible() && are_possible(&[*from, *to]),
            Message::NeedData { number, .. } => are_possible(&[*number]),
            Message::Repaired { epoch, entries, first } => {
                epoch.is_possible() && are_possible(&[*first]) && entries.iter().all(Entry::is_possible)
            }
            Message::Piece(Piece { content: PieceContent::Messages(messages), .. }) => {
                messages.iter().all(Entry::is_possible)
            }
            Message::Piece(Piece { content: PieceContent::End(state), .. }) => {
                state.state.is_none() && state.is_possible()
            }
            Message::Promise { epoch, promise: Promise { chain, history, held, ranges } } => {
                let is_range = |(from, to): &(Number, Number)| are_possible(&[*from, *to]);
                epoch.is_possible()
                    && is_chain(chain)
                    && is_history(history)
                    && are_possible(&[*held])
                    && ranges.iter().all(is_range)
            }
            Message::NewView(NewView { view, chain, history }) => {
                view.is_possible() && is_chain(chain) && is_history(history)
            }
            Message::State(state) => state.state.is_some() && state.is_possible(),
            Message::Join { held, .. } => are_possible(held.as_slice()),
            Message::Submit { epoch, content, .. } => epoch.is_possible() && content.is_possible(),
            Message::Propose { epoch }
            | Message::Refuse { promised: epoch }
            | Message::Installed { epoch }
            | Message::Resign { epoch }
            | Message::NeedState { epoch }
            | Message::CatchUp { epoch, .. }
            | Message::PutOut { epoch, .. } => epoch.is_possible(),
            Message::Piece(_) | Message::PieceAck { .. } | Message::Data { .. } | Message::Leave => true,
        }
    }
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
    pub content: Content,
}

impl Stamped {
    /// As [`Message::is_possible`].
    pub(crate) fn is_possible(&self) -> bool {
        self.epoch.is_possible() && self.number <= MOST_NUMBER && self.content.is_possible()
    }
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
    /// A majority of the view knows that it is current.
    pub is_settled: bool,
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

impl Ack {
    /// What the member has said with another one. `None` if the other one says nothing new.
    pub(crate) fn merge(&self, other: &Ack) -> Option<Ack> {
        if other.epoch > self.epoch {
            return Some(*other);
        }
        let (beat, held, consumed) =
            (self.beat.max(other.beat), self.held.max(other.held), self.consumed.max(other.consumed));
        let merged = Ack { epoch: self.epoch, beat, held, consumed };
        (other.epoch == self.epoch && merged != *self).then_some(merged)
    }
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
    /// It is part of the log of this view's epoch. Its sender has installed the view.
    pub view: View,
    /// The numbers with which the last epochs began.
    pub history: Vec<(Epoch, Number)>,
    /// It contains all messages before this one.
    pub number: Number,
    /// The program's own. `None`: it has come in the pieces before.
    pub state: Option<Bytes>,
}

impl State {
    fn is_possible(&self) -> bool {
        self.view.is_possible()
            && self.number <= MOST_NUMBER
            && self.history.iter().all(|(epoch, begin)| epoch.is_possible() && *begin <= MOST_NUMBER)
    }
}

/// A piece of a state. Its taker gets them in their order, and acknowledges each.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Piece {
    /// The giver's number for the state.
    pub id: u64,
    /// Which piece it is. The first one has 0.
    pub nth: u64,
    /// What it has.
    pub content: PieceContent,
}

/// What a piece has.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PieceContent {
    /// A part of the program's state, or bytes of a long one.
    Part {
        /// The bytes.
        bytes: Bytes,
        /// The part ends with them.
        is_last: bool,
    },
    /// Messages that the giver has delivered after the part before was made.
    Messages(Vec<Entry>),
    /// All is there: the state has the effect of all messages before a number. It is a piece, because it must not arrive before the others.
    End(State),
}

/// Why a process is not a member any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Ended {
    /// It had asked for it.
    Left,
    /// It did not answer for the group's patience.
    Silent,
    /// It handled messages more slowly than the group waits for.
    TooSlow,
    /// It is not in the view. The reason is not known any more.
    NotInView,
    /// The group has as many members as it can.
    Full,
}
