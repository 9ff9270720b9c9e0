//! A member's state, and what it tells the program and the network.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::apart::Apart;
use crate::ballot::Ballot;
use crate::leader::Lead;
use crate::log::{Entry, Level, Log};
use crate::message::{Ack, Ended, Message};
use crate::outgoing::Outgoing;
use crate::sequencer::StampTable;
use crate::settings::Settings;
use crate::transfer::{Giving, Late, Place, Taking};
use crate::view::{Epoch, Member, MemberId, Number, Time, View};

/// What a member wants to happen.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Send a message to a process.
    Send {
        /// A member, or a process that wants to be one.
        to: MemberId,
        /// The message.
        message: Message,
    },
    /// Send a message to [all](crate::Core::audience).
    Multicast(Message),
    /// Send a message to any member of the group that can be found: this process wants to join.
    Contact(Message),
    /// The program gets a message.
    Deliver(Delivery),
    /// A view is current. It is reported between the messages that were delivered in the last one, and those of this one.
    View(View),
    /// The program gives its state, for a new member, or the part of it that begins at this place: [`Core::state_taken`](crate::Core::state_taken),
    /// [`Core::part_taken`](crate::Core::part_taken).
    TakeState {
        /// For this process.
        joiner: MemberId,
        /// Where the part begins.
        place: Place,
    },
    /// A state begins to arrive in parts. Those that came before are void. The program goes on with its own state until
    /// [`RestoreState`](Output::RestoreState).
    BeginState {
        /// This process has none.
        is_first: bool,
    },
    /// Bytes of a part.
    StatePart {
        /// The bytes.
        bytes: Bytes,
        /// The part ends with them.
        is_last: bool,
    },
    /// The giver has delivered these after the part before was made, and they are a part of the state.
    StateMessages(Vec<Entry>),
    /// The parts of a state that have arrived are void.
    ForgetState,
    /// The program begins with this state.
    RestoreState {
        /// It contains all messages before this one.
        number: Number,
        /// What another member's program gave. `None`: the parts that have arrived are all of it.
        state: Option<Bytes>,
    },
    /// An own message was not delivered here.
    Returned {
        /// The message.
        id: u64,
        /// Other members may have delivered it.
        may_be_delivered: bool,
    },
    /// The program has handled messages that the group's majority did not know when the sequencer crashed: all from this number
    /// on. They are void. [`RestoreState`](Output::RestoreState) follows.
    Diverged(Number),
    /// What [`catch_up`](Core::catch_up) wants is done.
    CaughtUp(u64),
    /// Whether this member is in the part of the group that goes on. Reported when it changes.
    Primary(bool),
    /// This process is not a member any more.
    Ended(Ended),
}

/// A message for the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// Its place in the order.
    pub number: Number,
    /// Its sender.
    pub sender: MemberId,
    /// Its level.
    pub level: Level,
    /// Its content.
    pub payload: Bytes,
    /// If this member has sent it, its id.
    pub own: Option<u64>,
}

/// What has happened to messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// With a number that no group reaches, or a view that none can have.
    pub impossible: u64,
    /// From processes that are no members, and may not send them.
    pub strangers: u64,
    /// Of an epoch that has ended, or has not begun here.
    pub stale: u64,
    /// To be stamped, and out of turn, without credit, or while there is no lease. The sender sends them again.
    pub not_stamped: u64,
    /// Accepted ones that another member sent because they were missing here.
    pub repaired: u64,
    /// Parts of states that were refused, because they were longer than 1 GiB.
    pub too_long: u64,
}

/// How far another member is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    /// It holds all before this number of this epoch's log.
    pub(crate) held: Number,
    /// What it said last, in whatever epoch.
    pub(crate) last_ack: Option<Ack>,
    pub(crate) heard_at: Time,
    /// It was asked for this time without an answer before this member led as it does now.
    pub(crate) asked: Time,
}

impl Mark {
    /// Its program has handled all before this number, as far as it has said.
    pub(crate) fn consumed(&self) -> Number {
        self.last_ack.map_or(0, |ack| ack.consumed)
    }

    /// It has handled all before this number, as others say. Between two beats the log of a fast group would become longer than is kept for it.
    pub(crate) fn has_handled(&mut self, epoch: Epoch, number: Number) {
        if let Some(ack) = self.last_ack.as_mut().filter(|ack| ack.epoch == epoch) {
            (ack.held, ack.consumed) = (ack.held.max(number), ack.consumed.max(number));
            self.held = self.held.max(number);
        }
    }

    /// It was heard.
    pub(crate) fn hear(&mut self, now: Time) {
        (self.heard_at, self.asked) = (now, Time::ZERO);
    }

    /// How long it was asked without an answer, if that goes on since a time.
    pub(crate) fn asked_for(&self, since: Time, now: Time) -> Time {
        self.asked + now.saturating_sub(self.heard_at.max(since))
    }

    /// Whether it has answered since a time.
    pub(crate) fn has_answered(&self, since: Time) -> bool {
        self.last_ack.is_some() && self.heard_at >= since
    }
}

/// Looks for gaps.
#[derive(Debug, Default)]
pub(crate) struct Repair {
    /// Numbers before this one were given.
    pub(crate) known_end: Number,
    /// When to ask next.
    pub(crate) at: Option<Time>,
    /// The first missing number, for which this time is, and how often one that has it was asked for it.
    pub(crate) from: Number,
    pub(crate) copies: u32,
    pub(crate) attempt: usize,
    /// A member that has what is missing as a part of its state.
    pub(crate) state_of: Option<MemberId>,
    pub(crate) state_again_at: Time,
}

/// The question how far the others are, and their answers.
#[derive(Debug)]
pub(crate) struct CatchUp {
    pub(crate) level: Level,
    pub(crate) epoch: Epoch,
    pub(crate) answers: BTreeMap<MemberId, Number>,
    pub(crate) again_at: Time,
    /// How far to deliver, once it is known.
    pub(crate) end: Option<Number>,
}

/// A candidacy's times.
#[derive(Debug)]
pub(crate) struct Candidacy {
    /// From then on a majority is enough.
    pub(crate) fix_at: Time,
    /// When the next view was fixed.
    pub(crate) fixed_at: Option<Time>,
    pub(crate) send_again_at: Time,
    pub(crate) give_up_at: Time,
}

impl Candidacy {
    pub(crate) fn next_time(&self, now: Time) -> Time {
        let fix_at = Some(self.fix_at).filter(|at| *at > now);
        fix_at.into_iter().chain([self.send_again_at, self.give_up_at]).min().unwrap_or(now)
    }
}

/// Where a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It asks for the state.
    Joining {
        ask_at: Time,
    },
    /// It has the state, and is a member or becomes one.
    Member,
    /// It is a member, and needs the state of another one.
    Diverged {
        /// From this number on the pending view's log has other messages.
        cut: Number,
        ask_at: Time,
        attempt: usize,
    },
    Ended,
}

/// A member of a group, without network and clock.
///
/// Inputs are [`on_message`](crate::Core::on_message), [`on_time`](crate::Core::on_time), [`send`](crate::Core::send),
/// [`leave`](crate::Core::leave), in any number; then [`poll`](crate::Core::poll) until it returns nothing.
#[derive(Debug)]
pub struct Core {
    pub(crate) settings: Settings,
    pub(crate) me: Member,
    pub(crate) now: Time,
    /// When time alone was the cause last.
    pub(crate) timed_at: Time,
    pub(crate) role: Role,
    pub(crate) out: VecDeque<Output>,
    pub(crate) ballot: Ballot,
    pub(crate) log: Log,
    pub(crate) apart: Apart,
    /// All before this number were delivered.
    pub(crate) delivered: Number,
    pub(crate) mine: Outgoing,
    pub(crate) holds_contents: bool,
    /// Own messages of this epoch, and of those before it, came back to the program.
    pub(crate) returned: Epoch,
    pub(crate) next_id: u64,
    pub(crate) marks: BTreeMap<MemberId, Mark>,
    pub(crate) repair: Repair,
    /// An [`Ack`] for all is due then.
    pub(crate) ack_at: Option<Time>,
    pub(crate) acked: Number,
    /// This member is among the first to acknowledge safe messages.
    pub(crate) acks_at_once: bool,
    /// The sequencer says that all before this number are safe.
    pub(crate) safe_to: Number,
    pub(crate) last_beat: u32,
    /// The token that was passed on last.
    pub(crate) last_token: (Epoch, u32),
    /// The sequencer says that a majority knows this epoch's view.
    pub(crate) settled: Epoch,
    /// When the sequencer, or a candidate, was heard.
    pub(crate) heard_at: Time,
    /// The epoch that was promised last to another member, and its candidate.
    pub(crate) promised_to: Option<(Epoch, MemberId)>,
    pub(crate) candidacy: Option<Candidacy>,
    pub(crate) highest_epoch: Epoch,
    pub(crate) has_resigned: bool,
    /// Members that the view of this sequencer has not any more, and why.
    pub(crate) put_out: Vec<(MemberId, Ended)>,
    pub(crate) counters: Counters,
    /// When to ask again to leave.
    pub(crate) leave_at: Option<Time>,
    /// What was reported last, and when this member was in a majority last.
    pub(crate) was_primary: bool,
    pub(crate) primary_at: Time,
    pub(crate) lead: Option<Lead>,
    /// States are on their way to these processes until then.
    pub(crate) states: BTreeMap<MemberId, Time>,
    /// States that go to other processes in pieces, and the process for which the program was asked for a part.
    pub(crate) givings: BTreeMap<MemberId, Giving>,
    pub(crate) asked: Option<MemberId>,
    pub(crate) next_state: u32,
    /// Processes that were too slow for a state.
    pub(crate) late: BTreeMap<MemberId, Late>,
    /// Since when credits wait for a process that joins.
    pub(crate) held_back_since: Option<Time>,
    /// The state of another member that arrives here in pieces.
    pub(crate) taking: Option<Taking>,
    /// The member whose state had a part that was too long.
    pub(crate) refused_part_of: Option<MemberId>,
    /// Where this member gives numbers, if it becomes the sequencer.
    pub(crate) table: StampTable,
    /// Since when this member asks the others: it became the sequencer then. They answer no other member.
    pub(crate) asks_since: Time,
    /// How far the others are: questions of the program.
    pub(crate) catch_ups: BTreeMap<u64, CatchUp>,
    pub(crate) next_catch_up: u64,
}

impl Core {
    pub(crate) fn is_me(&self, id: MemberId) -> bool {
        self.me.id == id
    }

    pub(crate) fn post(&mut self, to: MemberId, message: Message) {
        self.out.push_back(Output::Send { to, message });
    }

    pub(crate) fn multicast(&mut self, message: Message) {
        self.out.push_back(Output::Multicast(message));
    }

    /// The processes that a multicast of this member reaches: the other members, and the processes that follow to become members.
    pub fn audience(&self) -> Vec<MemberId> {
        let learners = self.lead.iter().flat_map(Lead::learners);
        // A process that takes the state in pieces gets the messages with them.
        let learners = learners.filter(|id| !self.givings.get(id).is_some_and(Giving::goes_on));
        self.ballot.view().ids().chain(learners).filter(|id| !self.is_me(*id)).collect()
    }

    /// The views that may be current, or become it.
    pub fn views(&self) -> impl Iterator<Item = &View> {
        let new = self.ballot.pending().into_iter().chain(self.ballot.fixed());
        self.ballot.chain().iter().chain(self.ballot.promised_views()).chain(new.map(|new| &new.view))
    }

    /// Whether this is a member of the view that is current.
    pub(crate) fn is_settled_member(&self) -> bool {
        self.role == Role::Member && self.ballot.is_open() && self.ballot.view().has(self.me.id)
    }

    /// The own progress.
    pub(crate) fn own_ack(&self) -> Ack {
        let (epoch, beat) = (self.ballot.epoch(), self.last_beat);
        Ack { epoch, beat, held: self.log.held(), consumed: self.delivered }
    }

    /// Tell a process that it is not in the view, once a majority knows the view. It asks again.
    pub(crate) fn send_away(&mut self, id: MemberId, why: Ended) {
        let epoch = self.ballot.epoch();
        if self.is_settled() {
            self.post(id, Message::PutOut { epoch, why });
        }
    }

    /// Another epoch's places are void, and so are what was asked for and what was acknowledged.
    pub(crate) fn forget_places(&mut self) {
        (self.repair, self.acked, self.ack_at) = (Repair::default(), 0, None);
        self.apart.begin(self.ballot.view());
    }

    /// The installed view ends: what is stamped from now on may not be part of the order.
    pub(crate) fn seal(&self) {
        self.lead.iter().for_each(|lead| lead.sequencer.close());
    }

    /// This process is not a member any more.
    pub(crate) fn end(&mut self, why: Ended) {
        if self.role == Role::Ended {
            return;
        }
        let why = if self.leave_at.is_some() { Ended::Left } else { why };
        (self.role, self.lead, self.candidacy, self.ack_at) = (Role::Ended, None, None, None);
        self.ballot.withdraw();
        let all = self.mine.take_all();
        self.give_back(all);
        self.out.push_back(Output::Ended(why));
    }

    /// Own messages come back to the program.
    pub(crate) fn give_back(&mut self, mine: Vec<(u64, bool)>) {
        self.returned = self.ballot.epoch();
        let returned = mine.into_iter().map(|(id, may_be_delivered)| Output::Returned { id, may_be_delivered });
        self.out.extend(returned);
    }

    /// Whether a member has not answered for the patience, in which it was asked.
    pub(crate) fn is_given_up(&self, mark: &Mark) -> bool {
        mark.asked_for(self.asks_since, self.now) >= self.settings.patience
    }

    /// Why the sequencer puts a member out.
    pub(crate) fn reason(&self, id: MemberId) -> Ended {
        let has_left = self.lead.as_ref().is_some_and(|lead| lead.lets_go(id));
        let is_silent = self.marks.get(&id).is_some_and(|mark| self.is_given_up(mark));
        match (has_left, is_silent) {
            (true, _) => Ended::Left,
            (_, true) => Ended::Silent,
            _ => Ended::TooSlow,
        }
    }
}
