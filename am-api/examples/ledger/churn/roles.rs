//! The processes of `ledger churn`: the server that stays, the one client that stays, and those that are killed.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use am_api::{Connection, ConnectionChange, Endpoint, Node, Request};

use super::MESSAGES;
use crate::Error;
use crate::book::Book;
use crate::process::{ENDPOINT, Leave, Place, SERVER, WORK, open};

const TURN: Duration = Duration::from_millis(5);

/// Answers; its book's total is the flows that are open.
pub(crate) fn stay(place: &Place, leave: &Leave) -> Result<(), Error> {
    let Some(node) = open(place, leave)? else { return Ok(()) };
    let mut book = Book::create(&place.book)?;
    let mut endpoint = node.endpoint::<u64>(ENDPOINT)?;
    // A client that is gone needs no answer.
    endpoint.on_request(WORK, |_, Request { message, token }| _ = token.reply(WORK, message.words(), b""));
    endpoint.on_connection(|flows, event| match event.change {
        ConnectionChange::Accepted => *flows += 1,
        ConnectionChange::Ended(_) => *flows -= 1,
        ConnectionChange::Opened | ConnectionChange::Failed(_) => {}
    });
    let (mut flows, mut said) = (0, 0);
    while !leave.load(Relaxed) {
        endpoint.wait(&mut flows, TURN);
        if flows != said {
            book.set(flows);
            said = flows;
        }
    }
    Ok(())
}

/// Asks all the time, some requests at once.
pub(crate) fn steady(place: &Place, leave: &Leave) -> Result<(), Error> {
    let mut book = Book::create(&place.book)?;
    let Some(node) = open(place, leave)? else { return Ok(()) };
    let (mut endpoint, to) = connect(&node)?;
    let (mut replies, mut asked, mut said) = (0, 0, 0);
    while !leave.load(Relaxed) {
        while asked < replies + 8 && ask(&endpoint, to)? {
            asked += 1;
        }
        endpoint.wait(&mut replies, TURN);
        if replies > said + 64 {
            book.set(replies);
            said = replies;
        }
    }
    Ok(())
}

/// One of those that are killed.
struct Visitor {
    _node: Node,
    endpoint: Endpoint<u64>,
    to: Connection,
    replies: u64,
    asked: u64,
}

impl Visitor {
    /// A turn; whether it has had all its messages.
    fn turn(&mut self) -> Result<bool, Error> {
        if self.asked == self.replies && self.asked < MESSAGES && ask(&self.endpoint, self.to)? {
            self.asked += 1;
        }
        self.endpoint.poll(&mut self.replies);
        Ok(self.replies == MESSAGES)
    }
}

/// As many clients as it is called, at once. Then they wait to be killed.
pub(crate) fn visit(place: &Place, leave: &Leave) -> Result<(), Error> {
    let mut book = Book::create(&place.book)?;
    let mut visitors = vec![];
    for n in 0..place.name.parse::<u64>()? {
        let place = Place { name: format!("client-{}-{n}", place.run), ..place.clone() };
        let Some(node) = open(&place, leave)? else { return Ok(()) };
        let (endpoint, to) = connect(&node)?;
        visitors.push(Visitor { _node: node, endpoint, to, replies: 0, asked: 0 });
    }
    let begin = Instant::now();
    loop {
        let mut done = 0;
        for visitor in &mut visitors {
            done += usize::from(visitor.turn()?);
        }
        if done == visitors.len() {
            break;
        }
        if begin.elapsed() > PATIENCE {
            return Err("not all were answered".into());
        }
        thread::yield_now();
    }
    book.set(visitors.iter().map(|visitor| visitor.replies).sum());
    loop {
        // Nobody is polled: they are as idle as can be.
        thread::sleep(PATIENCE);
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

fn connect(node: &Node) -> Result<(Endpoint<u64>, Connection), Error> {
    let mut endpoint = node.endpoint::<u64>(ENDPOINT)?;
    endpoint.on_reply(WORK, |replies, _| *replies += 1);
    let to = endpoint.connect(SERVER, ENDPOINT)?;
    Ok((endpoint, to))
}

/// `false` where there is no room now.
fn ask(endpoint: &Endpoint<u64>, to: Connection) -> Result<bool, Error> {
    match endpoint.try_request(to, WORK, &[], b"") {
        Ok(()) => Ok(true),
        Err(error) if error.is_temporary() => Ok(false),
        Err(error) => Err(error.into()),
    }
}
