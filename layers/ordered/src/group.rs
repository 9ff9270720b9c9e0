//! A member of a group, on a node.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use am_api::{Endpoint, EndpointError, Idle, Node, Request};
use am_base::end_of;
use am_ordered_core::{Core, Ended, Level, Member, MemberId, Message, NotSent, Output, Settings, View};
use bytes::Bytes;

use crate::frames::{Frames, Outcome};
use crate::health::Health;
use crate::links::{HANDLER, Links};
use crate::packet::{ANY, Packet};
use crate::parts::{Misplaced, Parts};
use crate::replica::{Delivered, Event, MessageId, Replica};
use crate::state::States;

/// How often unused connections are looked for.
const TIDY: Duration = Duration::from_secs(10);
/// The longest sleep of a wait. Timers of the core are due sooner, as a rule.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// A member of a group.
///
/// Everything happens in the calls that [poll](Group::poll), on the thread that calls them. A member that is not polled delivers
/// nothing, and after the group's [patience](Settings::patience) it is put out.
pub struct Group<R> {
    endpoint: Endpoint<Inside>,
    inside: Inside,
    links: Links,
    replica: R,
    contacts: Vec<String>,
    next_contact: usize,
    opened_at: Duration,
    /// By the node's clock, like all times of the group but those that a caller waits.
    tidy_at: Duration,
    /// When a piece of a content is due.
    pieces_at: Option<Duration>,
    /// A message whose frame waits for room. All that the core says after it waits, too.
    waits: Option<Output>,
    /// Nothing is due before this time, unless a message arrives or the program calls: a turn costs little until then.
    rests_until: Option<Duration>,
    states: States,
    ended: Option<Ended>,
}

/// What the handlers work on.
struct Inside {
    me: MemberId,
    core: Core,
    /// The nodes of processes that the core may not know as members: those that were, and strangers.
    nodes: BTreeMap<MemberId, String>,
    /// Where the network multiplies frames.
    frames: Option<Frames>,
    parts: Parts,
    malformed: u64,
}

impl Inside {
    /// Join the frames of a group. Those of another one are left.
    fn join_frames(endpoint: &mut Endpoint<Inside>, group: u64) -> Option<Frames> {
        Frames::join(endpoint, group, |inside: &mut Inside, frame| {
            if let Some(frames) = &mut inside.frames
                && frames.on_frame(&mut inside.core, &frame).is_err()
            {
                inside.malformed += 1;
            }
        })
    }
}

/// Why a message is not sent.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Twice the group's capacity waits already, or 64 MiB.
    #[error("{0} messages wait for their places in the order: poll, and try again")]
    Full(usize),
    /// This process is no member any more.
    #[error("this process is no member of the group any more: join again")]
    Ended,
    /// The members' nodes do not accept a message of this length. That this one's does counts for all.
    #[error(
        "the message has {needs} bytes, and {most} are possible: open the members' nodes with a larger `Builder::max_message`"
    )]
    TooLong {
        /// Its bytes.
        needs: usize,
        /// The most that are possible.
        most: usize,
    },
}

am_api::debug_as_display!(SendError);

/// A group that did not let a member go in time.
#[derive(thiserror::Error)]
#[error("the group has not let this member go within {0:?}: no majority of its members answers, or they do not poll")]
pub struct NotLeft(Duration);

am_api::debug_as_display!(NotLeft);

/// What has happened to a member's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages that made no sense, or were for a process that ran here before.
    pub malformed: u64,
    /// What the protocol did not accept, or repaired: see [`am_ordered_core::Counters`].
    pub protocol: am_ordered_core::Counters,
    /// Messages between members that found no room to wait, or whose connection had ended. The protocol sends them again.
    pub dropped: u64,
    /// Stamped messages that arrived as frames of the group.
    pub frames: u64,
    /// Of these, own ones that were sent to the sequencer's process, because its network has stamped them.
    pub echoed: u64,
}

/// With more bytes of contents on their way no further ones are sent.
const MOST_BACKLOG: usize = 8 << 20;

/// Bytes around a message when one member sends it to another, for repair.
const AROUND: usize = 256;

/// The most processes whose nodes are remembered.
const MOST_NODES: usize = 1024;

impl<R: Replica> Group<R> {
    /// Found a group: this process is its only member. The group's name is that of an endpoint of each member's node.
    ///
    /// # Errors
    /// The name is not possible, or the node has an endpoint of this name.
    pub fn found(node: &Node, name: &str, settings: Settings, replica: R) -> Result<Group<R>, EndpointError> {
        Group::open(node, name, new_id(), |me, now| Core::found(me, settings, now), vec![], replica)
    }

    /// Join a group by any of its members, whose nodes' names are `contacts`. The process is a member when its replica gets the
    /// first [`Event::View`]; before that it gets the group's state. It asks for as long as it takes, also where no such group is: a program that
    /// does not want to wait drops the group. Each member's node has to reach each other's.
    ///
    /// # Errors
    /// As for [`found`](Group::found).
    pub fn join(
        node: &Node,
        name: &str,
        contacts: &[impl AsRef<str>],
        settings: Settings,
        replica: R,
    ) -> Result<Group<R>, EndpointError> {
        let contacts = contacts.iter().map(|name| name.as_ref().into()).collect();
        Group::open(node, name, new_id(), |me, now| Core::join(me, settings, now), contacts, replica)
    }

    /// Found a group, or join it by a contact, in a simulation: under an id of the caller's choice, so that each run is the same. No other process
    /// may ever have it.
    #[doc(hidden)]
    pub fn simulated(
        node: &Node,
        name: &str,
        (id, contact): (MemberId, Option<&str>),
        settings: Settings,
        replica: R,
    ) -> Result<Group<R>, EndpointError> {
        let contacts = contact.into_iter().map(str::to_owned).collect();
        let core = |me, now| match contact {
            None => Core::found(me, settings, now),
            Some(_) => Core::join(me, settings, now),
        };
        Group::open(node, name, id, core, contacts, replica)
    }

    fn open(
        node: &Node,
        name: &str,
        id: MemberId,
        core: impl FnOnce(Member, Duration) -> Core,
        contacts: Vec<String>,
        replica: R,
    ) -> Result<Group<R>, EndpointError> {
        let mut endpoint: Endpoint<Inside> = node.endpoint(name)?;
        endpoint.on_request(HANDLER, |inside, Request { message, .. }| {
            let parsed = match Packet::part(inside.me, message.words()) {
                Some((from, place, all)) => match inside.parts.on_part(from, place, all, message.payload()) {
                    Ok(None) => return,
                    Ok(Some(whole)) => Packet::parse_whole(&whole).map(|content| (from, content)),
                    Err(Misplaced) => None,
                },
                None => Packet::parse(inside.me, message.words(), message.payload()),
            };
            let Some((from, content)) = parsed else {
                inside.malformed += 1;
                return;
            };
            if inside.core.member(from).is_none()
                && inside.nodes.len() < MOST_NODES
                && let Some(peer) = message.endpoint().peer(message.from())
            {
                inside.nodes.insert(from, peer.node.as_str().into());
            }
            inside.core.on_message(message.endpoint().turn_time(), from, content);
        });
        // The founder's id is the group's. A process that joins learns here whether it can.
        let frames = Inside::join_frames(&mut endpoint, id.0);
        let link = frames.as_ref().map_or(0, |_| node.link_address().to_u64());
        let core = core(Member { id, name: node.name().into(), link }, endpoint.time());
        let inside = Inside { me: id, core, nodes: BTreeMap::new(), frames, parts: Parts::default(), malformed: 0 };
        let mut group = Group {
            opened_at: endpoint.time(),
            tidy_at: endpoint.time() + TIDY,
            endpoint,
            inside,
            links: Links::new(name),
            replica,
            contacts,
            next_contact: 0,
            pieces_at: None,
            rests_until: None,
            waits: None,
            states: States::default(),
            ended: None,
        };
        group.follow_frames();
        Ok(group)
    }

    /// Send a message to all members, this one included. It is delivered here, too, with [`Delivered::own`], or comes back as
    /// [`Event::Returned`].
    ///
    /// # Errors
    /// Too many messages wait, the message is too long, or the process is no member any more.
    pub fn send(&mut self, level: Level, payload: impl AsRef<[u8]>) -> Result<MessageId, SendError> {
        let (needs, most) = (payload.as_ref().len(), self.max_payload());
        if needs > most {
            return Err(SendError::TooLong { needs, most });
        }
        let payload = Bytes::copy_from_slice(payload.as_ref());
        let id = self.inside.core.send(self.endpoint.time(), level, payload).map_err(|why| match why {
            NotSent::Full(waiting) => SendError::Full(waiting),
            NotSent::Ended => SendError::Ended,
        })?;
        self.carry_out();
        self.rest(None);
        Ok(MessageId(id))
    }

    /// The longest message, in bytes.
    pub fn max_payload(&self) -> usize {
        self.endpoint.max_message().saturating_sub(AROUND)
    }

    /// Deliver all that has been delivered with this level at any member until now: a read after [`Event::CaughtUp`], which has the number that is returned,
    /// misses nothing. It takes a round trip to a majority, and no message of the order. Without a majority it waits for one.
    pub fn catch_up(&mut self, level: Level) -> u64 {
        let question = self.inside.core.catch_up(self.endpoint.time(), level);
        self.carry_out();
        self.rest(None);
        question
    }

    /// Receive, deliver, and send what waits. Returns how much was done: 0 if nothing.
    pub fn poll(&mut self) -> usize {
        let handled = self.endpoint.poll(&mut self.inside);
        handled + self.go_on(handled)
    }

    /// Poll until something was done or the time is over. Sleep meanwhile.
    pub fn wait(&mut self, timeout: Duration) -> usize {
        let end = end_of(timeout);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let done = self.sleep(left, Endpoint::wait);
            if done > 0 || left.is_zero() {
                return done;
            }
        }
    }

    /// How a wait of this member waits: it spins, yields, or sleeps at once.
    pub fn set_idle(&mut self, idle: Idle) {
        self.endpoint.set_idle(idle);
    }

    /// Poll. If there was nothing to do, sleep once: for this time at most, until a message arrives, a timer is due, another endpoint of the node has
    /// [work](Node::has_work), or another thread uses the node's [waker](Node::waker). Returns how much was done.
    pub fn turn(&mut self, longest: Duration) -> usize {
        self.sleep(longest, Endpoint::wait_any)
    }

    fn sleep(
        &mut self,
        longest: Duration,
        wait: impl FnOnce(&mut Endpoint<Inside>, &mut Inside, Duration) -> usize,
    ) -> usize {
        let done = self.poll();
        if done > 0 || longest.is_zero() {
            return done;
        }
        let due = self.rests_until.unwrap_or_else(|| self.inside.core.next_time());
        let timer = self.pieces_at.map_or(due, |at| at.min(due)).saturating_sub(self.endpoint.time());
        let handled = wait(&mut self.endpoint, &mut self.inside, timer.min(longest).min(LONGEST_SLEEP));
        handled + self.go_on(handled)
    }

    /// Poll until the replica is as wanted or the time is over. Returns whether it is.
    pub fn wait_until(&mut self, timeout: Duration, mut wanted: impl FnMut(&R) -> bool) -> bool {
        let end = end_of(timeout);
        loop {
            if wanted(&self.replica) {
                return true;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.wait(left);
        }
    }

    /// Ask to leave, and go on: [`ended`](Group::ended) says when the group has let this member go.
    pub fn begin_leave(&mut self) {
        self.inside.core.leave(self.endpoint.time());
        self.carry_out();
        self.rest(None);
    }

    /// Leave the group, and wait until it has let this member go. Messages that wait are sent before.
    ///
    /// # Errors
    /// The time was over first. The group puts this member out after its patience.
    pub fn leave(mut self, timeout: Duration) -> Result<R, NotLeft> {
        let end = end_of(timeout);
        while self.ended.is_none() && (self.waiting() > 0 || self.backlog() > 0) && Instant::now() < end {
            self.wait(end.saturating_duration_since(Instant::now()));
        }
        self.begin_leave();
        while self.ended.is_none() && Instant::now() < end {
            self.wait(end.saturating_duration_since(Instant::now()));
        }
        self.carry_out();
        for to in self.links.connections() {
            self.endpoint.wait_accepted(&mut self.inside, to, end.saturating_duration_since(Instant::now()));
        }
        match self.ended {
            Some(_) => Ok(self.replica),
            None => Err(NotLeft(timeout)),
        }
    }

    /// The program's state.
    pub fn replica(&self) -> &R {
        &self.replica
    }

    /// The members, as far as this one knows.
    pub fn view(&self) -> &View {
        self.inside.core.view()
    }

    /// This process's id in the group.
    pub fn me(&self) -> MemberId {
        self.inside.me
    }

    /// Whether this member is in the part of the group that goes on.
    pub fn is_primary(&self) -> bool {
        self.inside.core.is_primary()
    }

    /// Why this process is no member any more.
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Whether the network gives the numbers while this member is the sequencer, without waking its process.
    ///
    /// # Errors
    /// Why the process does.
    pub fn stamps_in_network(&self) -> Result<(), String> {
        let Inside { core, frames, .. } = &self.inside;
        let frames = frames.as_ref().ok_or("this transport does not multiply frames")?;
        if !core.view().has_links() {
            return Err("a member's transport does not multiply frames".into());
        }
        if core.settings().stamp_in_process {
            return Err("the group's settings have the sequencer's process stamp".into());
        }
        frames.table(core.settings().dissemination, self.endpoint.time()).map(|_| ())
    }

    /// What is wrong, and what to do: no member answers this process, which joins; this member hears no majority, or another one takes nothing from
    /// it; the group's frames do not get here (messages arrive nevertheless, slowly); a process that joins is too slow for it; or two members have
    /// one name.
    pub fn health(&self) -> Option<String> {
        let Inside { core, nodes, frames, .. } = &self.inside;
        let (frames, links, contacts, now) = (frames.as_ref(), &self.links, &self.contacts[..], self.endpoint.time());
        let (opened_at, has_ended) = (self.opened_at, self.ended.is_some());
        Health { core, nodes, frames, links, contacts, opened_at, has_ended, now }.trouble()
    }

    /// Whether the credits add up to the group's capacity, as far as this member knows them: the sequencer does. While a network stamps a
    /// message at this moment, they may not.
    pub fn has_whole_credits(&self) -> bool {
        self.inside.core.has_whole_credits()
    }

    /// Own messages that were not delivered yet.
    pub fn waiting(&self) -> usize {
        self.inside.core.waiting()
    }

    /// What has happened to messages.
    pub fn counters(&self) -> Counters {
        let protocol = self.inside.core.counters();
        let (frames, echoed) = self.inside.frames.as_ref().map_or((0, 0), |frames| (frames.stamped, frames.echoed));
        Counters { malformed: self.inside.malformed, protocol, dropped: self.links.dropped, frames, echoed }
    }

    /// Receive the frames of the group, and let the network stamp them if this member becomes the sequencer.
    fn follow_frames(&mut self) {
        let Inside { core, frames, .. } = &mut self.inside;
        if frames.as_ref().is_some_and(|frames| frames.group() != core.view().group) {
            *frames = None;
            *frames = Inside::join_frames(&mut self.endpoint, core.view().group);
        }
        if let Some(Ok(table)) =
            frames.as_ref().map(|frames| frames.table(core.settings().dissemination, self.endpoint.time()))
        {
            core.stamp_in(table);
        }
    }

    /// Let the core do what is due, carry it out, and send.
    fn go_on(&mut self, handled: usize) -> usize {
        let now = self.endpoint.turn_time();
        if handled == 0 && self.rests_until.is_some_and(|until| now < until) {
            return 0;
        }
        let (due, are_states_due) = (self.inside.core.next_time(), self.states.are_due());
        if due <= now {
            self.inside.core.on_time(now);
        }
        self.states.go_on(&mut self.inside.core, &mut self.replica);
        let done = self.carry_out();
        if self.tidy_at <= now {
            self.tidy_at = now + TIDY;
            self.links.close_unused(&self.endpoint);
        }
        let is_same = done == 0 && due > now && !are_states_due;
        self.rest(is_same.then_some(due));
        done
    }

    /// Turns in which nothing arrives cost little from now on, until something is due: at this time, if it is known.
    fn rest(&mut self, due: Option<Duration>) {
        let has_more = self.waits.is_some() || self.pieces_at.is_some() || self.links.has_more();
        let rests = !has_more && self.backlog() == 0 && !self.states.are_due();
        let due = || due.unwrap_or_else(|| self.inside.core.next_time());
        self.rests_until = rests.then(|| due().min(self.tidy_at));
    }

    /// The bytes of contents that some member does not have yet.
    fn backlog(&self) -> usize {
        let now = self.endpoint.turn_time();
        let pieces = self.inside.frames.as_ref().map_or(0, |frames| frames.backlog(now));
        self.links.backlog(now).max(pieces)
    }

    /// Carry out what the core says, and hold contents back while others have not left.
    fn carry_out(&mut self) -> usize {
        let mut done = 0;
        loop {
            done += self.carry_out_all();
            let holds = self.backlog() >= MOST_BACKLOG;
            if !self.inside.core.hold_contents(self.endpoint.turn_time(), holds) {
                return done;
            }
        }
    }

    fn carry_out_all(&mut self) -> usize {
        let mut done = 0;
        while let Some(output) = self.waits.take().or_else(|| self.inside.core.poll()) {
            done += 1;
            if let Some(full) = self.carry_out_one(output) {
                // Connections would carry it once for each member: more frames where there is no room for one.
                self.waits = Some(full);
                break;
            }
        }
        let Inside { core, frames, .. } = &mut self.inside;
        let pump = |frames: &mut Frames| frames.pump(core, self.endpoint.turn_time());
        let (pieces, pieces_at) = frames.as_mut().map_or((0, None), pump);
        self.pieces_at = pieces_at;
        let sent = self.links.flush(&self.endpoint) + pieces;
        if sent > 0 || self.waits.is_some() {
            // Now, and not with the next turn: others wait for it.
            self.endpoint.flush();
        }
        done + sent
    }

    /// Returns a message for whose frame there is no room.
    fn carry_out_one(&mut self, output: Output) -> Option<Output> {
        match output {
            Output::Send { to, message } => match self.send_frame(&message) {
                Outcome::Sent => {}
                Outcome::Full => return Some(Output::Send { to, message }),
                Outcome::NoFrame => self.post(to, message),
            },
            Output::Multicast(message) => return self.multicast(message),
            Output::Contact(message) => {
                let count = self.contacts.len();
                if let Some(contact) = self.contacts.get(self.next_contact % count.max(1)) {
                    self.links.push(self.endpoint.time(), contact, Packet::new(self.inside.me, ANY, message));
                    self.next_contact += 1;
                }
            }
            Output::Deliver(delivery) => {
                let sender = self.inside.core.member(delivery.sender);
                self.replica.deliver(&Delivered {
                    number: delivery.number,
                    sender: delivery.sender,
                    from: sender.map_or("", |member| &member.name),
                    level: delivery.level,
                    own: delivery.own.map(MessageId),
                    payload: &delivery.payload,
                });
            }
            output @ (Output::TakeState { .. }
            | Output::BeginState { .. }
            | Output::StatePart { .. }
            | Output::StateMessages(_)
            | Output::ForgetState) => self.states.carry_out(&mut self.inside.core, &mut self.replica, output),
            Output::RestoreState { state, .. } => {
                self.follow_frames();
                self.states.restore(&self.inside.core, &mut self.replica, state);
            }
            Output::Diverged(from) => self.replica.event(&Event::Diverged { from }),
            Output::View(view) => {
                let nodes = &mut self.inside.nodes;
                if nodes.len() >= MOST_NODES {
                    nodes.clear();
                }
                nodes.extend(view.members.iter().map(|member| (member.id, member.name.clone())));
                self.replica.event(&Event::View(view));
            }
            Output::CaughtUp(question) => self.replica.event(&Event::CaughtUp(question)),
            Output::Primary(true) => self.replica.event(&Event::Primary),
            Output::Primary(false) => self.replica.event(&Event::NotPrimary),
            Output::Returned { id, may_be_delivered } => {
                self.replica.event(&Event::Returned { message: MessageId(id), may_be_delivered });
            }
            Output::Ended(why) => {
                self.ended = Some(why);
                self.replica.event(&Event::Ended(why));
            }
        }
        None
    }

    /// Send a message to all. Returns it if there is no room for its frame.
    fn multicast(&mut self, message: Message) -> Option<Output> {
        let sending = match (&message, &mut self.inside.frames) {
            (Message::Data { id, payload, .. }, Some(frames)) => frames.push_content(&self.inside.core, *id, payload),
            _ => self.send_frame(&message),
        };
        if sending == Outcome::Full {
            return Some(Output::Multicast(message));
        }
        let is_sent = sending == Outcome::Sent;
        for to in self.inside.core.audience() {
            let has_link = self.inside.core.member(to).is_some_and(|member| member.link != 0);
            if !is_sent || !has_link {
                self.post(to, message.clone());
            }
        }
        None
    }

    /// Send a message as a frame, if it is one for that.
    fn send_frame(&self, message: &Message) -> Outcome {
        let Inside { core, frames, .. } = &self.inside;
        frames.as_ref().map_or(Outcome::NoFrame, |frames| frames.send(core, message))
    }

    /// Queue a message for a process, if it is known where it runs.
    fn post(&mut self, to: MemberId, message: Message) {
        let Inside { me, core, nodes, .. } = &self.inside;
        let name = core.member(to).map(|member| &member.name).or_else(|| nodes.get(&to));
        // A process of this node that ran before is not reached.
        if let Some(name) = name.filter(|name| *name != core.own_name()) {
            self.links.push(self.endpoint.time(), name, Packet::new(*me, to, message));
        }
    }
}

/// A random id, which no other process has. 0 is none.
fn new_id() -> MemberId {
    MemberId(RandomState::new().hash_one(Instant::now()) | 1)
}
