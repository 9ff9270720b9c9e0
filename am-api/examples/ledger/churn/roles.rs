//! The processes of `ledger churn`: the server that stays, the one client that stays, and those that are killed.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use am_api::{Endpoint, FlowChange, Node, Remote, RequestError};

use super::MESSAGES;
use crate::Error;
use crate::book::Book;
use crate::process::{ENDPOINT, Leave, Place, SERVER, WORK, open};

const TURN: Duration = Duration::from_millis(5);

/// Answers; its book's total is the flows that are open.
pub(crate) fn stay(place: &Place, leave: &Leave) -> Result<(), Error> {
    let mut book = Book::create(&place.book)?;
    let Some(node) = open(place, leave)? else { return Ok(()) };
    let mut endpoint = node.endpoint::<u64>(ENDPOINT)?;
    // Who is gone needs no answer.
    endpoint.on_request(WORK, |_, message, token| _ = token.reply(WORK, message.words(), b""));
    endpoint.on_flow(|flows, event| match event.change {
        FlowChange::Accepted => *flows += 1,
        FlowChange::Ended(_) => *flows -= 1,
        FlowChange::Settled => {}
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
    let (mut endpoint, to, mut replies) = connect(&node)?;
    let (mut asked, mut said) = (0, 0);
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

/// As many clients as it is called: connected all, and each with some messages. Then they wait to be killed.
pub(crate) fn visit(place: &Place, leave: &Leave) -> Result<(), Error> {
    let mut book = Book::create(&place.book)?;
    let mut clients = vec![];
    for n in 0..place.name.parse::<u64>()? {
        let place = Place { name: format!("client-{}-{n}", place.run), ..place.clone() };
        let Some(node) = open(&place, leave)? else { return Ok(()) };
        let (mut endpoint, to, mut replies) = connect(&node)?;
        for asked in 0..MESSAGES {
            ask(&endpoint, to)?;
            if !endpoint.wait_until(&mut replies, PATIENCE, |replies| *replies > asked) {
                return Err("no reply".into());
            }
        }
        book.add(replies);
        clients.push((node, endpoint));
    }
    loop {
        // Nobody is polled: they are as idle as can be.
        std::thread::sleep(PATIENCE);
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

fn connect(node: &Node) -> Result<(Endpoint<u64>, Remote, u64), Error> {
    let mut endpoint = node.endpoint::<u64>(ENDPOINT)?;
    endpoint.on_reply(WORK, |replies, _| *replies += 1);
    let (to, mut replies) = (endpoint.connect(SERVER, ENDPOINT)?, 0);
    endpoint.wait_open(&mut replies, to, PATIENCE)?;
    Ok((endpoint, to, replies))
}

/// `false` where there is no room now.
fn ask(endpoint: &Endpoint<u64>, to: Remote) -> Result<bool, Error> {
    match endpoint.request(to, WORK, &[], b"") {
        Ok(()) => Ok(true),
        Err(RequestError::NoCredit | RequestError::NoFrame) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
