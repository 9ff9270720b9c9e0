//! The side that asks.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use am_api::{Connection, ConnectionChange, Endpoint, Fate, Node, NotOpen};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::Error;
use crate::book::{Book, Kind};
use crate::process::{ENDPOINT, Leave, Place, SERVER, WORK, is_whole, open, payload, seal};

/// Requests of one connection that are handed over before the next turn.
const BURST: u32 = 32;
/// Connections at once.
const LANES: usize = 3;
/// After an end what comes back is heard within this time.
pub(crate) const SETTLES: Duration = Duration::from_millis(300);

/// Whether messages may still come back on a connection that ended then, or has not.
pub(crate) fn may_return_more(ended: Option<Instant>) -> bool {
    ended.is_none_or(|since| since.elapsed() < SETTLES)
}
/// A client that leaves with everything answered waits so long for it.
const PATIENCE: Duration = Duration::from_secs(3);

struct State {
    book: Book,
    connections: HashMap<Connection, Progress>,
    random: SmallRng,
    /// The name of the next connection.
    next: u64,
}

#[derive(Debug)]
struct Progress {
    name: u64,
    sent: u32,
    /// Replied, or came back.
    settled: u32,
    /// Since it was closed, or ended.
    over: Option<Instant>,
}

/// One connection after the other.
struct Lane {
    to: Connection,
    /// The requests that it is to send, and whether it is closed while some of them are under way.
    most: u32,
    cuts: bool,
    asked: Instant,
}

/// Ask until told to leave; close connections and drop the node now and then.
pub(crate) fn run(place: &Place, leave: &Leave) -> Result<(), Error> {
    let (book, random) = (Book::create(&place.book)?, SmallRng::seed_from_u64(place.seed));
    let mut state = State { book, connections: HashMap::new(), random, next: place.run << 32 };
    while let Some(node) = open(place, leave)? {
        state.live(&node, leave)?;
    }
    Ok(())
}

impl State {
    /// The life of a node.
    fn live(&mut self, node: &Node, leave: &Leave) -> Result<(), Error> {
        let mut endpoint = endpoint(node)?;
        let mut lanes = (0..LANES).map(|_| self.lane(&endpoint)).collect::<Result<Vec<_>, _>>()?;
        let mut connections = self.random.random_range(5..60);
        while connections > 0 && !leave.load(Relaxed) {
            for lane in &mut lanes {
                if !self.step(&endpoint, lane) {
                    *lane = self.lane(&endpoint)?;
                    connections -= 1;
                }
            }
            endpoint.wait(self, Duration::from_millis(1));
        }
        if self.random.random_bool(0.5) {
            // The last reply was handled in the turn before, and is not acknowledged yet.
            let is_settled = |progress: &Progress| progress.over.is_some() || progress.settled == progress.sent;
            endpoint.wait_until(self, PATIENCE, |state| state.connections.values().all(is_settled));
        }
        // The book notes no message that comes back later.
        for (_, connection) in self.connections.drain() {
            if may_return_more(connection.over) {
                self.book.note(connection.name, Kind::Left, 0);
            }
        }
        Ok(())
    }

    fn lane(&mut self, endpoint: &Endpoint<State>) -> Result<Lane, Error> {
        let to = endpoint.connect(SERVER, ENDPOINT)?;
        let most = 1 << self.random.random_range(0..18);
        let most = self.random.random_range(most / 2..=most).max(1);
        Ok(Lane { to, most, cuts: self.random.random_bool(0.5), asked: Instant::now() })
    }

    /// Send what there is room for. `false` where the connection is over.
    fn step(&mut self, endpoint: &Endpoint<State>, lane: &mut Lane) -> bool {
        match endpoint.ready(lane.to) {
            Ok(()) => {}
            Err(NotOpen::Connecting) => return true,
            // The server may be away, and need not be asked all the time.
            Err(_) if lane.asked.elapsed() < Duration::from_millis(10) => return true,
            Err(_) => {
                endpoint.close(lane.to);
                return false;
            }
        }
        let State { book, connections, next, .. } = self;
        let connection = connections.entry(lane.to).or_insert_with(|| {
            let name = *next;
            *next += 1;
            book.note(name, Kind::Opened, 0);
            Progress { name, sent: 0, settled: 0, over: None }
        });
        send(endpoint, lane, connection, book);
        let is_done = connection.sent == lane.most && (lane.cuts || connection.settled == connection.sent);
        if is_done && connection.over.is_none() {
            book.note(connection.name, Kind::Closed, 0);
            connection.over = Some(Instant::now());
            endpoint.close(lane.to);
        }
        !is_done
    }
}

/// As many as go; the book has them before they leave.
fn send(endpoint: &Endpoint<State>, lane: &Lane, connection: &mut Progress, book: &mut Book) {
    let room = (endpoint.credit(lane.to) as u32).min(lane.most - connection.sent).min(BURST);
    if room == 0 {
        return;
    }
    let (name, before) = (connection.name, connection.sent);
    book.sends(name, before + room);
    for number in before..before + room {
        let seal = seal(name, u64::from(number));
        if endpoint.try_request(lane.to, WORK, &[name, u64::from(number), seal], payload(seal)).is_err() {
            break;
        }
        connection.sent += 1;
    }
    if connection.sent < before + room {
        book.sends(name, connection.sent);
    }
    book.add(u64::from(connection.sent - before));
}

fn endpoint(node: &Node) -> Result<Endpoint<State>, Error> {
    let mut endpoint = node.endpoint::<State>(ENDPOINT)?;
    endpoint.on_reply(WORK, |state, reply| {
        let number = reply.word(1) as u32;
        let Some(connection) = state.connections.get_mut(&reply.from()) else { return };
        state.book.note(connection.name, Kind::Replied, number);
        connection.settled += 1;
        if reply.word(0) != connection.name || !is_whole(reply.words(), reply.payload()) {
            state.book.note(connection.name, Kind::Spoilt, number);
        }
    });
    endpoint.on_returned(|state, back| {
        let kind = if back.fate == Fate::NotDelivered { Kind::NotDelivered } else { Kind::Unknown };
        state.book.because(back.message.word(0), kind, back.message.word(1) as u32, Some(back.reason));
        if let Some(connection) = state.connections.get_mut(&back.to()) {
            connection.settled += 1;
        }
    });
    endpoint.on_connection(|state, event| {
        if let ConnectionChange::Ended(reason) = event.change
            && let Some(connection) = state.connections.get_mut(&event.connection)
        {
            connection.over = Some(Instant::now());
            state.book.ended(connection.name, reason, event.unhandled);
        }
    });
    Ok(endpoint)
}
