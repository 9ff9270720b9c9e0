//! The side that is asked.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use am_api::{Connection, ConnectionChange, Endpoint, Fate, Message, Node, Request, Token};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::Error;
use crate::book::{Book, Kind};
use crate::client::may_return_more;
use crate::process::{ENDPOINT, Leave, Place, WORK, is_whole, open, payload};

struct State {
    book: Book,
    run: u64,
    twice: bool,
    /// The client's name of each connection that was asked on, and when it ended.
    connections: HashMap<Connection, (u64, Option<Instant>)>,
}

/// Handle requests until told to leave; drop the endpoint now and then, with all that waits in it.
pub(crate) fn run(place: &Place, leave: &Leave) -> Result<(), Error> {
    let book = Book::create(&place.book)?;
    let mut state = State { book, run: place.run, twice: place.twice, connections: HashMap::new() };
    let mut random = SmallRng::seed_from_u64(place.seed);
    let Some(node) = open(place, leave)? else { return Ok(()) };
    while !leave.load(Relaxed) {
        let until = Instant::now() + Duration::from_millis(random.random_range(500..8000));
        let mut endpoint = endpoint(&node)?;
        while Instant::now() < until && !leave.load(Relaxed) {
            endpoint.wait(&mut state, Duration::from_millis(5));
        }
        state.leaves();
        drop(endpoint);
    }
    Ok(())
}

fn endpoint(node: &Node) -> Result<Endpoint<State>, Error> {
    let mut endpoint = node.endpoint::<State>(ENDPOINT)?;
    endpoint.on_request(WORK, |state, Request { message, token }| {
        state.handle(&message);
        if state.twice && message.word(1) % 1000 == 999 {
            state.handle(&message);
        }
        state.answer(&message, token);
    });
    endpoint.on_returned(|state, back| {
        let kind = if back.fate == Fate::NotDelivered { Kind::ReplyNotDelivered } else { Kind::ReplyUnknown };
        state.book.because(back.message.word(0), kind, back.message.word(1) as u32, Some(back.reason));
    });
    endpoint.on_connection(|state, event| {
        if let ConnectionChange::Ended(reason) = event.change
            && let Some((connection, over)) = state.connections.get_mut(&event.connection)
        {
            *over = Some(Instant::now());
            state.book.ended(*connection, reason, event.unhandled);
        }
    });
    Ok(endpoint)
}

impl State {
    fn handle(&mut self, message: &Message<'_, State>) {
        let (connection, number) = (message.word(0), message.word(1) as u32);
        self.book.note(connection, Kind::Handled, number);
        self.connections.entry(message.from()).or_insert((connection, None));
        if !is_whole(message.words(), message.payload()) {
            self.book.note(connection, Kind::Spoilt, number);
        }
    }

    fn answer(&mut self, message: &Message<'_, State>, token: Token) {
        let [connection, number, seal] = [0, 1, 2].map(|at| message.word(at));
        if token.reply(WORK, &[connection, number, seal, self.run], payload(seal)).is_err() {
            self.book.note(connection, Kind::Refused, number as u32);
        }
    }

    /// The endpoint closes: the book notes no reply that comes back later.
    fn leaves(&mut self) {
        for (_, (connection, over)) in self.connections.drain() {
            if may_return_more(over) {
                self.book.note(connection, Kind::Left, 0);
            }
        }
    }
}
