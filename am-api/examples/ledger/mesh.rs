//! One of many nodes, each of which asks all others and answers them. It connects to each member that joins.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use am_api::{
    Class, Connection, ConnectionChange, Endpoint, Fate, MemberChange, Node, NotOpen, Request, ReturnReason, Returned,
};

use crate::Error;
use crate::book::{self, Book, Kind};
use crate::client::may_return_more;
use crate::process::{ENDPOINT, Leave, Place, WORK, is_whole, open, payload, seal};

/// Requests of one connection that are neither answered nor back.
const MAX_OPEN: u32 = 4;
/// After this many requests a connection is closed and another one opened.
const REQUESTS: u32 = 2000;
const TURN: Duration = Duration::from_millis(2);

struct State {
    book: Book,
    members: MembersBook,
    /// Connections of this side.
    asked: HashMap<Connection, Asked>,
    /// The peer's name of each connection that it asks on, and when it ended.
    served: HashMap<Connection, (u64, Option<Instant>)>,
    /// The connection to each member.
    lanes: BTreeMap<String, Option<Connection>>,
    /// The name of the next connection.
    next: u64,
}

struct Asked {
    name: u64,
    sent: u32,
    /// Replied, or came back.
    settled: u32,
    over: Option<Instant>,
}

/// The file in which a process records changes of members. Each line has a time, a node's name, and 1 for joined or 0 for left.
/// The first line is the start of the process.
pub(crate) struct MembersBook(File);

impl MembersBook {
    fn note(&mut self, name: &str, is_member: bool) {
        let line = format!("{} {name} {}\n", book::now(), u8::from(is_member));
        self.0.write_all(line.as_bytes()).unwrap_or_else(|error| panic!("the book cannot be written: {error}"));
    }
}

/// Ask and answer until told to leave.
pub(crate) fn run(place: &Place, leave: &Leave) -> Result<(), Error> {
    let (book, members) =
        (Book::create(&place.book)?, MembersBook(File::create(place.book.with_extension("members"))?));
    let Some(node) = open(place, leave)? else { return Ok(()) };
    let (asked, served, lanes) = (HashMap::new(), HashMap::new(), BTreeMap::new());
    let mut state = State { book, members, asked, served, lanes, next: place.run << 32 };
    state.members.note(&place.name, true);
    let mut endpoint = endpoint(&node)?;
    while !leave.load(Relaxed) {
        let names: Vec<String> = state.lanes.keys().cloned().collect();
        names.iter().try_for_each(|name| state.step(&endpoint, name))?;
        endpoint.wait(&mut state, TURN);
    }
    // The book notes no message that comes back later.
    let asked = state.asked.values().map(|asked| (asked.name, asked.over));
    let all: Vec<(u64, Option<Instant>)> = asked.chain(state.served.values().copied()).collect();
    for (connection, over) in all {
        if may_return_more(over) {
            state.book.note(connection, Kind::Left, 0);
        }
    }
    Ok(())
}

fn endpoint(node: &Node) -> Result<Endpoint<State>, Error> {
    let mut endpoint = node.endpoint::<State>(ENDPOINT)?;
    endpoint.on_request(WORK, |state, Request { message, token }| {
        let [connection, number, seal] = [0, 1, 2].map(|at| message.word(at));
        state.book.note(connection, Kind::Handled, number as u32);
        state.served.entry(message.from()).or_insert((connection, None));
        if !is_whole(message.words(), message.payload()) {
            state.book.note(connection, Kind::Spoilt, number as u32);
        }
        if token.reply(WORK, &[connection, number, seal, 0], payload(seal)).is_err() {
            state.book.note(connection, Kind::Refused, number as u32);
        }
    });
    endpoint.on_reply(WORK, |state, reply| {
        let number = reply.word(1) as u32;
        let Some(asked) = state.asked.get_mut(&reply.from()) else { return };
        state.book.note(asked.name, Kind::Replied, number);
        asked.settled += 1;
        if reply.word(0) != asked.name || !is_whole(reply.words(), reply.payload()) {
            state.book.note(asked.name, Kind::Spoilt, number);
        }
    });
    endpoint.on_returned(|state, back| state.on_returned(&back));
    endpoint.on_connection(|state, event| {
        if let ConnectionChange::Ended(reason) = event.change {
            state.on_end(event.connection, reason, event.unhandled);
        }
    });
    endpoint.on_members(|state, event| state.on_member(event.member.peer.name.to_string(), event.change));
    Ok(endpoint)
}

impl State {
    fn on_returned(&mut self, back: &Returned<'_, State>) {
        let kind = match (back.class(), back.fate) {
            (Class::Request, Fate::NotDelivered) => Kind::NotDelivered,
            (Class::Request, Fate::Unknown) => Kind::Unknown,
            (Class::Reply, Fate::NotDelivered) => Kind::ReplyNotDelivered,
            (Class::Reply, Fate::Unknown) => Kind::ReplyUnknown,
        };
        self.book.because(back.message.word(0), kind, back.message.word(1) as u32, Some(back.reason));
        if let Some(asked) = self.asked.get_mut(&back.to()).filter(|_| back.class() == Class::Request) {
            asked.settled += 1;
        }
    }

    fn on_end(&mut self, connection: Connection, reason: ReturnReason, unhandled: [u32; 2]) {
        let (name, over) = match (self.asked.get_mut(&connection), self.served.get_mut(&connection)) {
            (Some(asked), _) => (asked.name, &mut asked.over),
            (None, Some((name, over))) => (*name, over),
            (None, None) => return,
        };
        *over = Some(Instant::now());
        self.book.ended(name, reason, unhandled);
    }

    fn on_member(&mut self, name: String, change: MemberChange) {
        match change {
            MemberChange::Joined => {
                self.members.note(&name, true);
                self.lanes.entry(name).or_default();
            }
            MemberChange::Left(_) => {
                self.members.note(&name, false);
                // An open connection ends when its node has lost patience.
                self.lanes.remove(&name);
            }
            MemberChange::Changed => {}
        }
    }

    /// Connect to a member, send what there is room for, close.
    fn step(&mut self, endpoint: &Endpoint<State>, name: &str) -> Result<(), Error> {
        let Some(lane) = self.lanes.get_mut(name) else { return Ok(()) };
        let to = match *lane {
            Some(to) => to,
            None => *lane.insert(endpoint.connect(name, ENDPOINT)?),
        };
        match endpoint.ready(to) {
            Ok(()) => {}
            Err(NotOpen::Connecting) => return Ok(()),
            Err(_) => {
                endpoint.close(to);
                *lane = None;
                return Ok(());
            }
        }
        let State { book, asked, next, .. } = self;
        let asked = asked.entry(to).or_insert_with(|| {
            let name = *next;
            *next += 1;
            book.note(name, Kind::Opened, 0);
            Asked { name, sent: 0, settled: 0, over: None }
        });
        asked.send(endpoint, to, book);
        if asked.sent == REQUESTS && asked.settled == REQUESTS && asked.over.is_none() {
            book.note(asked.name, Kind::Closed, 0);
            asked.over = Some(Instant::now());
            endpoint.close(to);
            *lane = None;
        }
        Ok(())
    }
}

impl Asked {
    fn send(&mut self, endpoint: &Endpoint<State>, to: Connection, book: &mut Book) {
        let room = (REQUESTS - self.sent).min(MAX_OPEN.saturating_sub(self.sent - self.settled));
        let until = self.sent + room.min(endpoint.credit(to) as u32);
        if self.sent == until {
            return;
        }
        let before = self.sent;
        book.sends(self.name, until);
        while self.sent < until {
            let (number, seal) = (u64::from(self.sent), seal(self.name, u64::from(self.sent)));
            if endpoint.try_request(to, WORK, &[self.name, number, seal], payload(seal)).is_err() {
                book.sends(self.name, self.sent);
                break;
            }
            self.sent += 1;
        }
        book.add(u64::from(self.sent - before));
    }
}
