//! What a process does with messages: it asks, answers, and notes both in its book.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use am_api::{
    Class, Connection, ConnectionChange, Endpoint, Fate, HandlerId, MemberChange, Message, Node, Request, ReturnReason,
    Returned, Token,
};

use super::book::{self, Book, Kind};
use super::process::{ENDPOINT, Place};
use crate::Error;
use crate::content::{is_whole, payload, seal};
use crate::program;

/// Request and reply: connection, number, their seal; a reply's fourth word is the answering process's run.
pub(super) const WORK: HandlerId = HandlerId(0);
/// After the end of a connection, messages return within this time.
pub(super) const SETTLES: Duration = Duration::from_millis(300);

pub(super) struct Peer {
    book: Book,
    run: u64,
    twice: bool,
    /// The connections that this side opened.
    asked: HashMap<Connection, Asked>,
    /// Of each connection that the other side asked on: that side's name for it, and when it ended.
    served: HashMap<Connection, (u64, Option<Instant>)>,
    /// The name of the next connection.
    next: u64,
    /// Frames that this process's earlier nodes have lost on purpose.
    lost: u64,
    /// Changes of members that the program has not seen yet.
    pub(super) members: Vec<(String, MemberChange)>,
}

#[derive(Debug)]
pub(super) struct Asked {
    name: u64,
    pub(super) sent: u32,
    /// Replied, or returned.
    pub(super) settled: u32,
    /// Since it was closed, or ended.
    pub(super) over: Option<Instant>,
}

impl Peer {
    pub(super) fn new(place: &Place) -> io::Result<Peer> {
        let (asked, served, members) = (HashMap::new(), HashMap::new(), vec![]);
        let book = Book::create(&place.book)?;
        Ok(Peer { book, run: place.run, twice: place.twice, asked, served, next: place.run << 32, lost: 0, members })
    }

    pub(super) fn endpoint(node: &Node) -> Result<Endpoint<Peer>, Error> {
        let mut endpoint = node.endpoint::<Peer>(ENDPOINT)?;
        endpoint.on_request(WORK, |peer, Request { message, token }| {
            peer.handle(&message);
            if peer.twice && message.word(1) % 1000 == 999 {
                peer.handle(&message);
            }
            peer.answer(&message, token);
        });
        endpoint.on_reply(WORK, |peer, reply| {
            let number = reply.word(1) as u32;
            let Some(asked) = peer.asked.get_mut(&reply.from()) else { return };
            peer.book.note(asked.name, Kind::Replied, number);
            asked.settled += 1;
            if reply.word(0) != asked.name || !is_whole(reply.words(), reply.payload()) {
                peer.book.note(asked.name, Kind::Spoilt, number);
            }
        });
        endpoint.on_returned(|peer, back| peer.returned(&back));
        endpoint.on_connection(|peer, event| {
            if let ConnectionChange::Ended(reason) = event.change {
                peer.ended(event.connection, reason, event.unhandled);
            }
        });
        Ok(endpoint)
    }

    fn handle(&mut self, message: &Message<'_, Peer>) {
        let (connection, number) = (message.word(0), message.word(1) as u32);
        self.book.note(connection, Kind::Handled, number);
        self.served.entry(message.from()).or_insert((connection, None));
        if !is_whole(message.words(), message.payload()) {
            self.book.note(connection, Kind::Spoilt, number);
        }
    }

    fn answer(&mut self, message: &Message<'_, Peer>, token: Token) {
        let [connection, number, seal] = [0, 1, 2].map(|at| message.word(at));
        if token.reply(WORK, &[connection, number, seal, self.run], payload(seal)).is_err() {
            self.book.note(connection, Kind::Refused, number as u32);
        }
    }

    fn returned(&mut self, back: &Returned<'_, Peer>) {
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

    fn ended(&mut self, connection: Connection, reason: ReturnReason, unhandled: [u32; 2]) {
        let (name, over) = match (self.asked.get_mut(&connection), self.served.get_mut(&connection)) {
            (Some(asked), _) => (asked.name, &mut asked.over),
            (None, Some((name, over))) => (*name, over),
            (None, None) => return,
        };
        *over = Some(Instant::now());
        self.book.ended(name, reason, unhandled);
    }

    /// What was asked on an open connection.
    pub(super) fn asked(&mut self, to: Connection) -> &mut Asked {
        let Peer { book, next, .. } = self;
        self.asked.entry(to).or_insert_with(|| {
            let name = *next;
            *next += 1;
            book.note(name, Kind::Opened, 0);
            Asked { name, sent: 0, settled: 0, over: None }
        })
    }

    /// Send until `until` requests are sent, or credit is used up. The book has them before they leave.
    pub(super) fn send(&mut self, endpoint: &Endpoint<Peer>, to: Connection, until: u32) {
        let Asked { name, sent: before, .. } = *self.asked(to);
        let until = until.min(before + endpoint.credit(to) as u32);
        if until <= before {
            return;
        }
        self.book.sends(name, until);
        let is_sent = |&number: &u32| {
            let seal = seal(name, u64::from(number));
            endpoint.try_request(to, WORK, &[name, u64::from(number), seal], payload(seal)).is_ok()
        };
        let sent = (before..until).find(|number| !is_sent(number)).unwrap_or(until);
        if sent < until {
            self.book.sends(name, sent);
        }
        self.book.add(u64::from(sent - before));
        self.asked(to).sent = sent;
    }

    pub(super) fn close(&mut self, endpoint: &Endpoint<Peer>, to: Connection) {
        let asked = self.asked(to);
        asked.over = Some(Instant::now());
        let name = asked.name;
        self.book.note(name, Kind::Closed, 0);
        endpoint.close(to);
    }

    /// Whether each request has its reply, has returned, or cannot return any more.
    pub(super) fn is_settled(&self) -> bool {
        self.asked.values().all(|asked| asked.over.is_some() || asked.settled == asked.sent)
    }

    /// The node closes: note the frames that it has lost on purpose.
    pub(super) fn count_lost(&mut self, node: &Node) {
        self.lost += node.counters().get(program::LOST);
        self.book.lost(self.lost);
    }

    /// The endpoint closes: the book notes no message that returns later.
    pub(super) fn leave(&mut self) {
        let asked = self.asked.drain().map(|(_, asked)| (asked.name, asked.over));
        for (connection, over) in asked.chain(self.served.drain().map(|(_, served)| served)) {
            if over.is_none_or(|since| since.elapsed() < SETTLES) {
                self.book.note(connection, Kind::Left, 0);
            }
        }
        self.book.note(book::ENDPOINT, Kind::Left, 0);
    }
}
