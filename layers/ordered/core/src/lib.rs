//! **The protocol of ordered multicast**, without network, clock and threads: bytes and times come in, messages and deliveries come out.
//! `am-ordered` runs it on nodes.
//!
//! ```text
//!   lib.rs        what arrives, and what time brings, to the files below
//!     │
//!   lead.rs       the sequencer: beats, lease, credits that return, joins, members that are put out
//!     │
//!   change.rs     candidates, promises, the next view's log, divergence      ballot.rs: the rules, pure
//!     │
//!   catch_up.rs   how far the order has got
//!     │
//!   give.rs, take.rs   the state of a member, in pieces
//!     │
//!   order.rs      submit ─▶ stamp ─▶ hold ─▶ deliver; repair of gaps         log.rs, sequencer.rs, outgoing.rs, apart.rs
//!     │
//!   member.rs     the state of a member, its outputs                         leader.rs, settings.rs, transfer.rs, view.rs
//! ```
//!
//! Read first: the head of `ballot.rs`, then [`Core`], then `order.rs` from top to bottom. [`Message`] lists what members say to each other.
//!
//! ```
//! use std::time::Duration;
//! use am_ordered_core::{Core, Level, Member, MemberId, Output, Settings};
//!
//! let (me, now) = (Member { id: MemberId(1), name: "alpha".into(), link: 0 }, Duration::ZERO);
//! let mut alone = Core::found(me, Settings::default(), now);
//! let id = alone.send(now, Level::Safe, "hello".into()).expect("there is room");
//! let delivered = std::iter::from_fn(|| alone.poll()).find_map(|output| match output {
//!     Output::Deliver(delivery) => Some(delivery),
//!     _ => None,
//! });
//! assert_eq!(delivered.expect("a majority of one holds it").own, Some(id));
//! ```
#![forbid(unsafe_code)]

mod apart;
mod ballot;
mod catch_up;
mod change;
mod give;
mod lead;
mod leader;
mod log;
mod member;
mod message;
pub mod mutants;
mod order;
mod outgoing;
mod sequencer;
mod settings;
mod take;
mod transfer;
mod view;

pub use ballot::{Accepted, Ballot, Changes};
use bytes::Bytes;
use log::Log;
pub use log::{Content, Entry, Level, Long};
pub use member::{Core, Counters, Delivery, Output};
use member::{Repair, Role};
pub use message::{Ack, Beat, Ended, Message, NewView, Piece, PieceContent, Promise, Stamped, State};
use outgoing::Outgoing;
pub use sequencer::StampTable;
pub use settings::{Dissemination, Settings};
pub use transfer::Place;
pub use view::{Epoch, Member, MemberId, Number, Time, View};

/// A process that joins asks again after this time.
const ASK_AGAIN: Time = Time::from_millis(100);

/// The shortest time between two calls that nothing but time causes.
const SHORTEST: Time = Time::from_micros(100);

/// Why a message is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// Twice the group's capacity waits already, or as many bytes as may wait: this number of messages.
    Full(usize),
    /// This process is no member any more.
    Ended,
}

/// An epoch that is so far ahead is not believed: the numbers of epochs would end.
const FAR: u32 = 1 << 20;

/// The epoch that a message raises.
fn epoch_of(message: &Message) -> Option<Epoch> {
    match message {
        Message::Propose { epoch } | Message::Refuse { promised: epoch } | Message::PutOut { epoch, .. } => {
            Some(*epoch)
        }
        Message::NewView(new_view) => Some(new_view.view.epoch),
        _ => None,
    }
}

impl Core {
    /// The first member of a group.
    pub fn found(me: Member, settings: Settings, now: Time) -> Core {
        let tie_break = settings.tie_break.clone();
        let group = me.id.0.max(1);
        let view = View { group, epoch: Epoch(1), members: vec![me.clone()], sequencer: me.id, tie_break };
        let mut core = Core::new(me, view.clone(), settings, now);
        let lead = leader::Lead::new(&view, 0, 0, &core.settings, &core.table, (now, now));
        core.mine.begin(view.epoch, 0);
        core.mine.set_limit(lead.own_limit());
        core.lead = Some(lead);
        core.out.push_back(Output::View(view));
        core.role = Role::Member;
        core
    }

    /// A process that wants to join a group. It sends its request by [`Output::Contact`].
    pub fn join(me: Member, settings: Settings, now: Time) -> Core {
        let view = View { group: 1, epoch: Epoch(0), members: vec![], sequencer: me.id, tie_break: None };
        Core::new(me, view, settings, now)
    }

    fn new(me: Member, view: View, settings: Settings, now: Time) -> Core {
        let (history, settings) = (vec![(view.epoch, 0)], settings.within_bounds());
        Core {
            ballot: Ballot::new(me.id, view.clone(), history),
            highest_epoch: view.epoch,
            settings,
            now,
            timed_at: now,
            role: Role::Joining { ask_at: now },
            out: Default::default(),
            log: Log::starting_at(0),
            apart: Default::default(),
            delivered: 0,
            mine: Outgoing::new(),
            holds_contents: false,
            returned: Epoch(0),
            next_id: 0,
            marks: Default::default(),
            repair: Repair::default(),
            ack_at: None,
            acked: 0,
            acks_at_once: true,
            safe_to: 0,
            last_beat: 0,
            last_token: (Epoch(0), 0),
            settled: Epoch(0),
            heard_at: now,
            promised_to: None,
            candidacy: None,
            has_resigned: false,
            put_out: vec![],
            counters: Counters::default(),
            leave_at: None,
            was_primary: true,
            primary_at: now,
            lead: None,
            states: Default::default(),
            givings: Default::default(),
            asked: None,
            next_state: 0,
            late: Default::default(),
            held_back_since: None,
            taking: None,
            refused_part_of: None,
            table: StampTable::private(),
            asks_since: now,
            catch_ups: Default::default(),
            next_catch_up: 0,
            me,
        }
    }

    /// If this member becomes the sequencer of members that all have links, it gives numbers in this table, unless the settings have its process
    /// stamp.
    pub fn stamp_in(&mut self, table: StampTable) {
        if !self.settings.stamp_in_process {
            self.table = table;
        }
    }

    /// What the program has chosen.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Send a message to all members, this one included. Returns the id by which [`Delivery::own`] or [`Output::Returned`] names it.
    ///
    /// # Errors
    /// Too many messages wait, or the process is no member any more.
    pub fn send(&mut self, now: Time, level: Level, payload: Bytes) -> Result<u64, NotSent> {
        self.advance(now);
        let waiting = self.mine.len();
        match self.role {
            Role::Ended => return Err(NotSent::Ended),
            _ if waiting >= 2 * self.settings.capacity || !self.mine.has_room(payload.len()) => {
                return Err(NotSent::Full(waiting));
            }
            _ => (),
        }
        let id = self.next_id;
        self.next_id += 1;
        self.mine.push(id, level, payload);
        self.submit();
        self.send_token();
        Ok(id)
    }

    /// Submit no more messages whose contents go to all members, or do so again: those that were sent before have not left yet. A member that
    /// delivers its own messages at once would send faster than the others receive. Returns whether it does so again.
    pub fn hold_contents(&mut self, now: Time, holds: bool) -> bool {
        self.advance(now);
        let is_over = std::mem::replace(&mut self.holds_contents, holds) && !holds;
        if is_over {
            self.submit();
            self.send_token();
        }
        is_over
    }

    /// Leave the group. [`Output::Ended`] says when the group has let this member go.
    pub fn leave(&mut self, now: Time) {
        self.advance(now);
        self.ask_to_leave();
    }

    fn ask_to_leave(&mut self) {
        self.leave_at = Some(self.now + ASK_AGAIN);
        let (epoch, sequencer) = (self.ballot.epoch(), self.ballot.view().sequencer);
        if matches!(self.role, Role::Joining { .. }) || self.is_last() {
            self.end(Ended::Left);
        } else if let Some(lead) = &self.lead {
            // Others that leave at the same time have said so by then, and go first.
            if lead.may_resign(self.now.saturating_sub(ASK_AGAIN * 2)) && self.candidacy.is_none() {
                self.multicast(Message::Resign { epoch });
                (self.lead, self.has_resigned) = (None, true);
                self.heard_at = self.now + self.settings.silence;
            }
        } else if !self.is_me(sequencer) {
            self.post(sequencer, Message::Leave);
        }
    }

    /// Whether the view has no other member, and those before it have heard that they are none. Others may need this one until then. A process that
    /// has the state, and is in no view yet, is not the last: the sequencer is about to add it.
    fn is_last(&self) -> bool {
        let is_alone = self.ballot.view().members.len() <= 1 && !self.learns();
        is_alone && self.ballot.is_open() && self.put_out.is_empty()
    }

    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// A message from another process has arrived.
    pub fn on_message(&mut self, now: Time, from: MemberId, message: Message) {
        self.advance(now);
        if self.role == Role::Ended || self.is_me(from) {
            return;
        }
        if !message.is_possible() {
            self.counters.impossible += 1;
            return;
        }
        if !self.may_say(from, &message) {
            self.counters.strangers += 1;
            return;
        }
        match message {
            Message::Piece(piece) => self.on_piece(from, piece).into_iter().for_each(|state| self.on_state(state)),
            Message::State(state) => self.on_state(state),
            Message::NeedState { epoch } => self.on_need_state(from, epoch),
            Message::Join { member, held } => self.on_join(member, held),
            Message::PutOut { why: Ended::NotInView, .. } if !self.was_member() && self.leave_at.is_none() => {
                self.join_again();
            }
            Message::PutOut { epoch, why } if self.may_be_put_out(epoch) => self.end(why),
            Message::Stamped(stamped) if self.takes_state_of(from) => {
                self.taking.iter_mut().for_each(|taking| taking.keep_early(stamped.clone()));
            }
            _ if matches!(self.role, Role::Joining { .. }) => (),
            Message::Submit { epoch, seq, level, content } => self.on_submit(from, epoch, seq, level, content),
            Message::Data { sender, id, payload } => self.on_data(from, sender, id, payload),
            Message::NeedData { sender, id, number } => self.on_need_data(from, sender, id, number),
            Message::Stamped(stamped) => {
                self.heard_sequencer(from, stamped.epoch);
                self.on_stamped(stamped);
            }
            Message::Beat(beat) => self.on_beat(from, &beat),
            Message::Ack(ack) => self.on_ack(from, ack),
            Message::Token { epoch, round, consumed } => self.on_token(epoch, round, consumed),
            Message::Repair { epoch, from: first, to } => self.on_repair(from, epoch, first, to),
            Message::Repaired { epoch, entries, first } => {
                self.on_repaired(from, epoch, entries, first);
                self.install();
            }
            Message::Propose { epoch } => self.on_propose(from, epoch),
            Message::Promise { epoch, promise } => self.on_promise(from, epoch, promise),
            Message::Refuse { promised } => self.on_refuse(from, promised),
            Message::NewView(new_view) => self.on_new_view(from, new_view),
            Message::Installed { epoch } => self.on_installed(from, epoch),
            Message::Resign { epoch } if [self.ballot.epoch(), self.ballot.promised()].contains(&epoch) => {
                self.has_resigned = true;
            }
            Message::CatchUp { epoch, id } => self.on_catch_up(from, epoch, id),
            Message::IsAt { epoch, id, number } => self.on_is_at(from, epoch, id, number),
            Message::PieceAck { id, next } => self.on_piece_ack(from, id, next),
            Message::Leave => self.on_leave(from),
            Message::PutOut { .. } | Message::Resign { .. } => (),
        }
        self.submit();
        self.send_token();
    }

    /// Whether this process may not be in the view of an epoch.
    fn may_be_put_out(&self, epoch: Epoch) -> bool {
        epoch > self.ballot.epoch() || epoch == self.ballot.epoch() && !self.ballot.view().has(self.me.id)
    }

    /// Whether a process may send this. A member that was stopped may not know the members of today: it listens to their candidates and
    /// their views, as one that joins does.
    fn may_say(&self, from: MemberId, message: &Message) -> bool {
        if epoch_of(message).is_some_and(|epoch| epoch.0 - self.highest_epoch.0.min(epoch.0) > FAR) {
            return false;
        }
        self.member(from).is_some()
            || match message {
                Message::Join { .. } | Message::Propose { .. } => true,
                // A process that joins has the view of an earlier sequencer. Its answer gets it the new one.
                Message::Beat(_) => self.learns(),
                // The answer is that it was put out.
                Message::Ack(_) | Message::NeedState { .. } | Message::Leave => true,
                Message::State(state) => self.role != Role::Member || self.learns() || self.needs(state),
                Message::Piece(_) => self.role != Role::Member || self.learns(),
                Message::Stamped(_) => self.takes_state_of(from),
                Message::PieceAck { .. } => self.givings.contains_key(&from),
                Message::NewView(new_view) => new_view.view.sequencer == from,
                Message::PutOut { .. } => !self.is_primary(),
                _ => false,
            }
    }

    /// A message has arrived that a network has stamped, in the sequencer's name. It does not show that the sequencer's process lives.
    pub fn on_stamped_frame(&mut self, now: Time, stamped: Stamped) {
        self.advance(now);
        if !stamped.is_possible() {
            self.counters.impossible += 1;
        } else if self.role == Role::Member {
            self.on_stamped(stamped);
            self.submit();
            self.send_token();
        }
    }

    fn heard_sequencer(&mut self, from: MemberId, epoch: Epoch) {
        let is_of = |view: &View| epoch == view.epoch && from == view.sequencer;
        if is_of(self.ballot.view()) {
            self.on_current(epoch);
            self.heard_at = self.now;
            // As long as beats arrive in time, nothing is due.
            if self.is_primary() {
                self.primary_at = self.now;
            }
        } else if self.ballot.pending().is_some_and(|pending| is_of(&pending.view)) {
            // A log or a state takes its time. Another candidate would only begin that anew.
            self.heard_at = self.now;
        }
    }

    fn on_beat(&mut self, from: MemberId, beat: &Beat) {
        let epoch = self.ballot.epoch();
        if beat.epoch < self.ballot.promised() {
            let promised = self.ballot.promised();
            return self.post(from, Message::Refuse { promised });
        }
        self.heard_sequencer(from, beat.epoch);
        if beat.epoch == epoch && self.ballot.is_open() {
            self.last_beat = beat.beat;
            if beat.is_settled {
                self.settled = epoch;
            }
            self.repair.known_end = self.repair.known_end.max(beat.next);
            self.log.free(beat.freed.min(self.delivered));
            self.safe_to = self.safe_to.max(beat.safe);
            let slot = self.ballot.view().slot(self.me.id);
            if let Some(limit) = slot.and_then(|slot| beat.limits.get(slot)) {
                self.mine.set_limit(*limit);
            }
            self.look_for_gap();
        }
        if beat.epoch >= epoch {
            self.post(from, Message::Ack(self.own_ack()));
        }
    }

    /// A member has promised to follow another, or hears the sequencer. A candidate gives up if the sequencer itself refuses, and has not
    /// promised this epoch: one that has promised it answers so to a candidacy that arrives twice. A sequencer takes the member back by a
    /// higher epoch.
    fn on_refuse(&mut self, from: MemberId, promised: Epoch) {
        self.highest_epoch = self.highest_epoch.max(promised);
        if self.ballot.is_open() && self.lead.is_some() && promised > self.ballot.epoch() {
            self.propose(Changes::default());
        } else if self.ballot.is_candidate()
            && from == self.ballot.view().sequencer
            && promised < self.ballot.promised()
        {
            self.candidacy = None;
            self.ballot.withdraw();
            self.heard_at = self.now;
        }
    }

    /// The state of another member has arrived, with its number.
    fn on_state(&mut self, state: State) {
        if self.needs(&state) {
            self.go_on_with(state);
        } else {
            self.begin_with(state);
        }
    }

    /// The state with which this process becomes a member.
    fn begin_with(&mut self, state: State) {
        // One that has a state takes another only if it goes back behind nothing: neither what it holds, nor what it has promised.
        let is_later = state.number > self.log.held() && state.view.epoch >= self.ballot.promised();
        let is_wanted = matches!(self.role, Role::Joining { .. }) || self.learns() && is_later;
        if !is_wanted {
            if state.state.is_none() {
                self.taking = None;
                self.forget_state();
            }
            return;
        }
        let State { view, history, number, state } = state;
        // One that was a member has sent some. They may be in the state.
        let submitted = self.mine.take_submitted();
        self.give_back(submitted);
        self.highest_epoch = view.epoch;
        self.ballot = Ballot::new(self.me.id, view, history);
        (self.role, self.log, self.delivered) = (Role::Member, Log::starting_at(number), number);
        self.forget_places();
        self.heard_at = self.now;
        let early = self.taking.take().map_or(vec![], |taking| taking.early);
        self.restore(number, state);
        early.into_iter().for_each(|stamped| self.on_stamped(stamped));
        let sequencer = self.ballot.view().sequencer;
        self.post(sequencer, Message::Ack(self.own_ack()));
    }

    /// Time has passed.
    pub fn on_time(&mut self, now: Time) {
        self.advance(now);
        self.timed_at = self.now;
        self.take_on_time();
        self.give_on_time();
        self.ask_to_join();
        self.ask_for_state();
        if matches!(self.role, Role::Joining { .. } | Role::Ended) {
            return;
        }
        if self.leave_at.is_some_and(|at| at <= now) {
            self.ask_to_leave();
        }
        self.lead_on();
        self.campaign_on();
        self.ask_for_gap();
        self.submit_again();
        self.submit();
        self.ask_where_others_are();
        self.tell_whether_primary();
    }

    /// A process that is in no view asks for the state, or for a sequencer that knows that it has the state.
    fn ask_to_join(&mut self) {
        let held = match self.role {
            Role::Joining { ask_at } if ask_at <= self.now => {
                self.role = Role::Joining { ask_at: self.now + ASK_AGAIN };
                None
            }
            // One that leaves does not ask to be a member.
            Role::Member if self.leave_at.is_some() && self.learns() => return,
            Role::Member if self.learns() && self.heard_at + self.settings.silence <= self.now => {
                self.heard_at = self.now;
                Some(self.log.held())
            }
            Role::Member if self.is_out() && self.heard_at + self.settings.silence <= self.now => {
                // A member of the view says whether it is current.
                self.heard_at = self.now;
                let (ack, members) = (self.own_ack(), &self.ballot.view().members);
                let nth =
                    (self.now.as_nanos() / self.settings.silence.as_nanos().max(1)) as usize % members.len().max(1);
                if let Some(to) = members.get(nth).map(|member| member.id) {
                    self.post(to, Message::Ack(ack));
                }
                return;
            }
            _ => return,
        };
        self.out.push_back(Output::Contact(Message::Join { member: self.me.clone(), held }));
    }

    /// The sequencer of a new epoch does not know that this process wants to join.
    fn join_again(&mut self) {
        match self.role {
            Role::Member => self.heard_at = Time::ZERO,
            Role::Diverged { .. } => self.role = Role::Joining { ask_at: self.now },
            Role::Joining { .. } | Role::Ended => (),
        }
    }

    /// Whether this process has the state, and is in no view.
    pub(crate) fn learns(&self) -> bool {
        self.role == Role::Member && !self.was_member()
    }

    /// Whether this member has installed a view without it, and does not know whether the view is current.
    pub(crate) fn is_out(&self) -> bool {
        let view = self.ballot.pending().map_or(self.ballot.view(), |pending| &pending.view);
        self.role == Role::Member && self.was_member() && !view.has(self.me.id)
    }

    fn was_member(&self) -> bool {
        self.ballot.chain().iter().any(|view| view.has(self.me.id))
    }

    /// Whether this member is in the part of the group that goes on, as far as it knows.
    pub fn is_primary(&self) -> bool {
        let patience = self.settings.silence * 2;
        self.role == Role::Member
            && self.was_member()
            && self.ballot.is_open()
            && match &self.lead {
                Some(lead) => lead.has_lease(self.now),
                None => self.now < self.heard_at + patience,
            }
    }

    /// Since when this member hears no majority, if it has said so.
    pub fn apart_since(&self) -> Option<Time> {
        let is_apart = !self.was_primary && self.was_member() && self.role == Role::Member;
        is_apart.then_some(self.primary_at)
    }

    fn tell_whether_primary(&mut self) {
        // A process that joins has not heard that it is.
        let is_primary = self.is_primary() || self.learns();
        if is_primary {
            self.primary_at = self.now;
        }
        // A change of the view takes less.
        let is_lost = self.role == Role::Member && self.primary_at + self.settings.silence * 2 <= self.now;
        if is_primary && !self.was_primary || is_lost && self.was_primary {
            self.was_primary = is_primary;
            self.out.push_back(Output::Primary(is_primary));
        }
    }

    /// The next thing to do. `None`: nothing, before [`next_time`](Core::next_time).
    pub fn poll(&mut self) -> Option<Output> {
        if self.out.is_empty() {
            self.acknowledge();
        }
        let next = self.out.pop_front().or_else(|| self.deliver().map(Output::Deliver)).or_else(|| self.caught_up());
        if next.is_some() || self.givings.is_empty() {
            return next;
        }
        self.give_on();
        self.out.pop_front()
    }

    /// When [`on_time`](Core::on_time) is due. Messages that arrive meanwhile do not defer it: a busy sequencer has to beat, too.
    pub fn next_time(&self) -> Time {
        let ask_at = match self.role {
            Role::Joining { ask_at } | Role::Diverged { ask_at, .. } => Some(ask_at),
            _ => None,
        };
        let candidacy = self.candidacy.as_ref().map(|candidacy| candidacy.next_time(self.now));
        let lead = self.lead.as_ref().filter(|_| self.ballot.is_open()).map(|lead| lead.next_time());
        // A member of the current view, as nearly always, is neither.
        let is_elsewhere = !self.is_settled_member() && (self.learns() || self.is_out());
        let learns_at = is_elsewhere.then(|| self.heard_at + self.settings.silence);
        // Each beat puts off what else is due.
        let tells_at = (!self.was_primary && self.is_primary()).then_some(self.now);
        let own = [learns_at, self.repair.at, self.ack_at, self.mine.again_at(), self.leave_at, self.candidate_at()];
        let others = [ask_at, candidacy, lead, self.asks_where_others_are_at(), self.gives_at(), tells_at];
        let first = own.into_iter().flatten().fold(Time::MAX, Time::min);
        let first = others.into_iter().flatten().fold(first, Time::min);
        let next = if first == Time::MAX { self.now + self.settings.silence } else { first };
        next.max(self.timed_at + SHORTEST)
    }

    /// The view that was installed last.
    pub fn view(&self) -> &View {
        self.ballot.view()
    }

    /// All before this number were delivered.
    pub fn delivered(&self) -> Number {
        self.delivered
    }

    /// Own messages that were not delivered yet.
    pub fn waiting(&self) -> usize {
        self.mine.len()
    }

    /// This process.
    pub fn me(&self) -> MemberId {
        self.me.id
    }

    /// The name of its node.
    pub fn own_name(&self) -> &str {
        &self.me.name
    }

    /// A process that this one has heard of as a member, or as one that becomes a member.
    pub fn member(&self, id: MemberId) -> Option<&Member> {
        let learners = self.lead.iter().flat_map(leader::Lead::learning);
        self.views().flat_map(|view| &view.members).chain(learners).find(|member| member.id == id)
    }

    /// What was not accepted so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether this member gives numbers at this time.
    pub fn gives_numbers(&self, now: Time) -> bool {
        self.ballot.is_open() && self.lead.as_ref().is_some_and(|lead| lead.has_lease(now))
    }

    /// Whether the credits add up to the group's capacity, as far as this member knows them: the sequencer does.
    pub fn has_whole_credits(&self) -> bool {
        self.lead.as_ref().is_none_or(leader::Lead::is_whole)
    }
}
