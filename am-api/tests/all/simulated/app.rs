//! The application of a node: the state that its handlers work on, and what it
//! does by itself.

use std::collections::HashMap;
use std::rc::Rc;

use am_api::{
    Class, Connection, ConnectionChange, Destination, Endpoint, Fate, HandlerId, LongHead, Message, OwnedMessage,
    Prepared, Request, RequestError, Returned, Token,
};
use am_netdev_sim::Nanos;
use am_netdev_sim::check::content::{MessageId, NodeRun, fill};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::seen::Common;
use crate::landing::Landing;
use crate::simulated::transfers::Under;
use crate::simulated::work::Work;

const ASK: HandlerId = HandlerId(0);
const ANSWER: HandlerId = HandlerId(0);
/// No frame has as much.
const FRAME: usize = 9000;
/// The most messages that are kept at once.
const MOST_KEPT: usize = 32;

/// A connection that this node asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) remote: Connection,
    pub(crate) to: u16,
    /// One more request is to be sent on it, in the end.
    encore: bool,
}

/// Something for later.
struct Later<T>(Nanos, T);

/// A request that stands in its frame.
struct Written {
    prepared: Prepared,
    id: MessageId,
    to: u16,
    size: usize,
}

pub(crate) struct App {
    pub(crate) run: NodeRun,
    pub(crate) common: Rc<Common>,
    pub(crate) now: Nanos,
    pub(crate) random: SmallRng,
    pub(crate) work: Work,
    number: u32,
    left: u32,
    next: Nanos,
    pub(crate) flows: Vec<Flow>,
    accepted: Vec<Connection>,
    /// The node at the other side, while a connection is open and after it.
    pub(crate) peers: HashMap<Connection, u16>,
    kept: Vec<Later<OwnedMessage>>,
    tokens: Vec<Later<(Token, u16)>>,
    written: Vec<Later<Written>>,
    /// The last request and reply of each connection.
    last: HashMap<(Connection, Class), MessageId>,
    /// Memory for long messages whose heads have arrived.
    landings: HashMap<MessageId, Landing>,
    /// Transfers that this node asked for.
    pub(crate) under: Under,
    /// Its endpoint is to be closed, and another opened.
    pub(crate) reopens: bool,
}

pub(crate) fn name(node: u16) -> String {
    format!("node{node}")
}

/// Words and payload of a message.
fn body(id: MessageId, note: u64, words: usize, size: usize) -> (Vec<u64>, Vec<u8>) {
    let mut bytes = vec![0; size];
    fill(&mut bytes, id, note);
    let (front, payload) = bytes.split_at(words * 8);
    let words = front.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word)).collect();
    (words, payload.to_vec())
}

impl App {
    pub(crate) fn new(run: NodeRun, common: &Rc<Common>, work: &Work, now: Nanos) -> App {
        let seed = work.seed ^ (run.node as u64) << 32 ^ (run.run as u64) << 48;
        App {
            run,
            common: common.clone(),
            now,
            random: SmallRng::seed_from_u64(seed),
            work: work.clone(),
            number: 0,
            left: work.requests,
            next: now,
            flows: vec![],
            accepted: vec![],
            peers: HashMap::new(),
            kept: vec![],
            tokens: vec![],
            written: vec![],
            last: HashMap::new(),
            landings: HashMap::new(),
            under: Under::default(),
            reopens: false,
        }
    }

    pub(crate) fn handlers(endpoint: &mut Endpoint<App>) {
        endpoint.on_request(ASK, |app: &mut App, Request { message, token }| app.on_request(&message, token));
        endpoint.on_reply(ANSWER, |app, message| app.on_message(&message, Class::Reply));
        endpoint.receive_into(App::destination);
        endpoint.on_returned(|app, returned| app.on_returned(&returned));
        endpoint.on_transfer(|app, over| app.on_transfer(&over));
        endpoint.on_connection(|app, event| {
            let node = event.peer.node.as_str().strip_prefix("node").and_then(|number| number.parse().ok());
            app.peers.insert(event.connection, node.unwrap_or(u16::MAX));
            match event.change {
                ConnectionChange::Accepted => app.accepted.push(event.connection),
                ConnectionChange::Opened | ConnectionChange::Failed(_) => (),
                ConnectionChange::Ended(_) => app.common.saw("ended by another"),
            }
        });
    }

    /// Its endpoint is another one: what was is over.
    pub(crate) fn reopened(&mut self) {
        self.flows.clear();
        self.accepted.clear();
        self.landings.clear();
        self.under = Under::default();
        self.reopens = false;
    }

    pub(crate) fn undecided(&self, endpoint: &Endpoint<App>) -> usize {
        let asking = self.flows.iter().filter(|flow| endpoint.ready(flow.remote) == Err(am_api::NotOpen::Connecting));
        let encores = self.flows.iter().filter(|flow| flow.encore).count();
        self.kept.len() + self.tokens.len() + self.written.len() + encores + asking.count()
    }

    pub(crate) fn encore(&mut self) {
        self.flows.iter_mut().for_each(|flow| flow.encore = true);
    }

    /// Some long messages go to memory of the program.
    fn destination(&mut self, head: &LongHead<'_>) -> Option<Destination> {
        if self.random.random_bool(0.5) {
            return None;
        }
        let front = self.random.random_range(0..=head.first.len().min(head.length));
        let landing = Landing::new(head.length - front);
        let memory = landing.part(0, head.length - front);
        self.landings.insert(MessageId::from_word(head.word(0)), landing);
        Some(Destination { front, memory })
    }

    fn on_message(&mut self, message: &Message<'_, App>, class: Class) {
        let mut checks = self.common.checks.borrow_mut();
        let id = MessageId::from_word(message.word(0));
        if !checks.prepared.contains(&id)
            && let Some(last) = self.last.insert((message.from(), class), id)
            && last.from == id.from
            && last.number >= id.number
        {
            checks.wrong("order", format!("{class:?} {} arrived after {}", id.number, last.number));
        }
        if message.payload().len() > FRAME {
            checks.saw("long");
        }
        let landing = self.landings.remove(&id).filter(|_| message.is_placed());
        if let Some(landing) = landing {
            checks.saw("placed");
            let payload = [message.payload(), &landing.all()].concat();
            let checked = checks.deliveries.delivered(self.run, message.words(), &payload);
            return checks.note(checked);
        }
        let checked = checks.deliveries.delivered(self.run, message.words(), message.payload());
        checks.note(checked);
        if self.kept.len() < MOST_KEPT && self.random.random_bool(self.work.hold) {
            checks.saw("kept beyond its handler");
            self.kept.push(Later(self.now + self.random.random_range(1..=self.work.keep), message.keep()));
        }
    }

    fn on_request(&mut self, message: &Message<'_, App>, token: Token) {
        self.on_message(message, Class::Request);
        let to = MessageId::from_word(message.word(0)).from.node;
        match self.random.random_range(0..10) {
            0 => drop(token),
            1..4 => self.tokens.push(Later(self.now + self.random.random_range(1..=self.work.keep), (token, to))),
            _ => self.reply(token, to),
        }
    }

    fn on_returned(&mut self, returned: &Returned<'_, App>) {
        let mut checks = self.common.checks.borrow_mut();
        checks.saw("returned to its sender");
        let over = !returned.message.endpoint().is_open(returned.to());
        let checked = checks.deliveries.returned(
            self.run,
            over,
            returned.fate == Fate::NotDelivered,
            returned.message.words(),
            returned.message.payload(),
        );
        checks.note(checked);
    }

    fn next_id(&mut self) -> MessageId {
        self.number += 1;
        MessageId { from: self.run, number: self.number }
    }

    /// The size of a message: of one that fits a frame, or of one as long as the peer accepts.
    fn size(&mut self, frame: usize, longest: usize) -> usize {
        if self.random.random_bool(self.work.long) { longest } else { frame }
    }

    /// A new message: its identity, words and payload, and the bytes of both.
    fn compose(&mut self, to: u16, most: usize) -> (MessageId, Vec<u64>, Vec<u8>, usize) {
        let (id, words) = (self.next_id(), self.random.random_range(2..=4));
        let most = if self.random.random_bool(0.5) { most } else { most.min(100) };
        let size = self.random.random_range(words * 8..=most.max(words * 8));
        let (words, payload) = body(id, to as u64, words, size);
        (id, words, payload, size)
    }

    fn sent(&self, id: MessageId, to: u16, size: usize) {
        self.common.checks.borrow_mut().deliveries.sent(id, to, size, to as u64);
    }

    fn reply(&mut self, token: Token, to: u16) {
        let most = self.size(token.frame_payload(0), token.max_payload());
        let (id, words, payload, size) = self.compose(to, most);
        match token.reply(ANSWER, &words, &payload) {
            Ok(()) => self.sent(id, to, size),
            // Not for lack of room, ever; and it was asked what fits.
            Err(am_api::ReplyError::Dead(_) | am_api::ReplyError::Closed) => (),
            Err(error) => self.common.checks.borrow_mut().wrong("replies", format!("refused: {error}")),
        }
    }

    /// What it does by itself; whether it did anything.
    pub(crate) fn act(&mut self, endpoint: &Endpoint<App>) -> bool {
        let mut busy = self.release_kept() | self.reply_late() | self.commit(endpoint) | self.send_encores(endpoint);
        if self.now < self.common.quiet_from && self.left > 0 && self.now >= self.next {
            self.next = self.now + self.random.random_range(1..=self.work.pause);
            self.burst(endpoint);
            busy = true;
        }
        busy
    }

    fn release_kept(&mut self) -> bool {
        let mut busy = false;
        while let Some(at) = self.kept.iter().position(|later| later.0 <= self.now) {
            let Later(_, kept) = self.kept.swap_remove(at);
            let mut checks = self.common.checks.borrow_mut();
            let checked = checks.deliveries.check_unchanged(kept.words(), &kept);
            checks.note(checked);
            busy = true;
        }
        busy
    }

    fn reply_late(&mut self) -> bool {
        let mut busy = false;
        while let Some(at) = self.tokens.iter().position(|later| later.0 <= self.now) {
            let Later(_, (token, to)) = self.tokens.swap_remove(at);
            self.reply(token, to);
            busy = true;
        }
        busy
    }

    fn commit(&mut self, endpoint: &Endpoint<App>) -> bool {
        if self.now >= self.common.quiet_from {
            self.written.clear();
        }
        let mut busy = false;
        while let Some(at) = self.written.iter().position(|later| later.0 <= self.now) {
            let Later(_, Written { prepared, id, to, size }) = self.written.swap_remove(at);
            let length = prepared.room();
            busy = true;
            match prepared.commit(length) {
                Ok(()) => {
                    self.common.saw("prepared and committed");
                    self.sent(id, to, size);
                }
                Err((error, prepared)) if error.is_temporary() => {
                    let written = Written { prepared, id, to, size };
                    self.written.push(Later(self.now + self.work.pause, written));
                }
                Err((error, _)) => self.refused(error, endpoint),
            }
        }
        busy
    }

    /// A request could not be sent: only the end of its connection is a reason.
    fn refused(&self, error: RequestError, _endpoint: &Endpoint<App>) {
        let mut checks = self.common.checks.borrow_mut();
        match error {
            RequestError::Dead(_) | RequestError::Closed => checks.saw("too late: the connection had ended"),
            RequestError::NoCredit => checks.saw("no credit"),
            RequestError::NoFrame | RequestError::QueueFull => checks.saw("no frame"),
            RequestError::Connecting | RequestError::Refused(_) => (),
            error => checks.wrong("requests", format!("refused: {error}")),
        }
    }

    fn send_encores(&mut self, endpoint: &Endpoint<App>) -> bool {
        for at in 0..self.flows.len() {
            let flow = self.flows[at];
            if flow.encore {
                let sent = self.request(endpoint, flow);
                self.flows[at].encore = sent.is_err_and(|error| error.is_temporary());
            }
        }
        false
    }

    fn request(&mut self, endpoint: &Endpoint<App>, flow: Flow) -> Result<(), RequestError> {
        let frame = endpoint.frame_payload(flow.remote, 0).unwrap_or(64);
        let most = self.size(frame, endpoint.max_payload(flow.remote).unwrap_or(64));
        let (id, words, payload, size) = self.compose(flow.to, most);
        let sent = endpoint.try_request(flow.remote, ASK, &words, &payload);
        match sent {
            Ok(()) => self.sent(id, flow.to, size),
            Err(error) => self.refused(error, endpoint),
        }
        sent
    }

    fn prepare(&mut self, endpoint: &Endpoint<App>, flow: Flow) {
        let most = endpoint.frame_payload(flow.remote, 0).unwrap_or(64);
        let (id, words, payload, size) = self.compose(flow.to, most);
        match endpoint.prepare(flow.remote, ASK, &words, payload.len(), payload.len()) {
            Ok(mut prepared) => {
                prepared.space().copy_from_slice(&payload);
                self.common.checks.borrow_mut().prepared.insert(id);
                let written = Written { prepared, id, to: flow.to, size };
                self.written.push(Later(self.now + self.random.random_range(1..=self.work.keep), written));
            }
            Err(error) => self.refused(error, endpoint),
        }
    }

    fn burst(&mut self, endpoint: &Endpoint<App>) {
        self.close_some(endpoint);
        if self.flows.len() < self.work.flows {
            let to = (self.run.node + self.random.random_range(1..self.common.nodes)) % self.common.nodes;
            let remote = endpoint.connect(&name(to), "main").expect("a good name, and an id");
            self.flows.push(Flow { remote, to, encore: false });
        }
        for _ in 0..self.random.random_range(1..12) {
            if self.left == 0 || self.flows.is_empty() {
                break;
            }
            let flow = self.flows[self.random.random_range(0..self.flows.len())];
            if !endpoint.is_open(flow.remote) {
                continue;
            }
            self.left -= 1;
            if self.random.random_bool(self.work.prepare) {
                self.prepare(endpoint, flow);
            } else {
                _ = self.request(endpoint, flow);
            }
            self.transfer(endpoint, flow);
        }
        self.reopens = self.random.random_bool(self.work.reopen);
    }

    /// Those that are over are closed, and perhaps one that is not.
    fn close_some(&mut self, endpoint: &Endpoint<App>) {
        self.flows.retain(|flow| {
            let over = !matches!(endpoint.ready(flow.remote), Ok(()) | Err(am_api::NotOpen::Connecting));
            if over {
                endpoint.close(flow.remote);
            }
            !over
        });
        if !self.random.random_bool(self.work.close) {
            return;
        }
        let (ours, at) = (self.random.random_bool(0.5), self.random.random_range(0..4));
        if ours && at < self.flows.len() {
            self.common.saw("closed");
            endpoint.close(self.flows.swap_remove(at).remote);
        } else if !ours && at < self.accepted.len() {
            self.common.saw("closed by who had accepted");
            endpoint.close(self.accepted.swap_remove(at));
        }
    }
}
