//! The side that is asked, and what both sides call things.

use std::io::{Write, stderr};
use std::time::{Duration, Instant};

use am_api::{Endpoint, HandlerId, Node, Region, RegionId, Request, Rights, Token};
use serde_json::json;

use super::Settings;
use super::ledger::Ledger;
use crate::Error;
use crate::content::{Shape, difference, fill};

/// The server's endpoint, and the one that can be full.
pub(crate) const MAIN: &str = "verify";
pub(crate) const FULL: &str = "full";

/// Requests: echo this;
pub(crate) const ECHO: HandlerId = HandlerId(0);
/// compare the region's first bytes: number, length; the answer is 1 where they are right;
pub(crate) const COMPARE: HandlerId = HandlerId(1);
/// fill them: number, length; the answer is 1;
pub(crate) const FILL: HandlerId = HandlerId(2);
/// take nothing out of the endpoint that can be full, for a while, and then [`OPEN`] or [`CLOSE`] it;
pub(crate) const SHUT: HandlerId = HandlerId(3);
/// the end.
pub(crate) const BYE: HandlerId = HandlerId(4);

/// Take messages out again; or never more.
pub(crate) const OPEN: u64 = 0;
pub(crate) const CLOSE: u64 = 1;
pub(crate) const WHILE: Duration = Duration::from_millis(1500);

/// Replies: an echo; what arrived was wrong: its number; an answer.
pub(crate) const SAME: HandlerId = HandlerId(0);
pub(crate) const SPOILT: HandlerId = HandlerId(1);
pub(crate) const ANSWER: HandlerId = HandlerId(2);

/// The server's region: the first of its node.
pub(crate) const REGION: RegionId = RegionId(1);
pub(crate) const REGION_BYTES: usize = 1 << 20;

/// The server's frames for what waits to be handled: fewer than its senders have credit for.
pub(crate) const ROOM: usize = 64;

/// A farewell may be lost: the server stays for those that are sent again.
const LINGER: Duration = Duration::from_millis(500);
const TURN: Duration = Duration::from_millis(5);

struct State {
    ledger: Ledger,
    region: Region,
    /// When the endpoint that can be full was shut, and what is to become of it.
    shut: Option<(Instant, u64)>,
    is_over: bool,
    heard: Instant,
}

/// Serve until the peer says goodbye. `false` where something arrived wrong.
pub(crate) fn run(settings: &Settings) -> Result<bool, Error> {
    let node = settings.open("beta", Some(ROOM))?;
    let mut main = node.endpoint::<State>(MAIN)?;
    let region = main.register(vec![0; REGION_BYTES], Rights::BOTH);
    if region.id() != REGION {
        return Err("the region is not the first of its node".into());
    }
    let mut state = State { ledger: Ledger::new("served"), region, shut: None, is_over: false, heard: Instant::now() };
    main.on_request(ECHO, echo);
    main.on_request(COMPARE, |state, Request { message, token }| {
        let bytes = state.region.bytes();
        let flaw = difference(message.word(0), &bytes[..message.word(1) as usize]);
        drop(bytes);
        if let Some(at) = flaw {
            state.ledger.wrong(format!("a transfer of {} bytes is wrong from byte {at} on", message.word(1)));
        }
        answer(token, flaw.is_none());
    });
    main.on_request(FILL, |state, Request { message, token }| {
        let bytes = fill(message.word(0), message.word(1) as usize);
        state.region.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
        answer(token, true);
    });
    main.on_request(SHUT, |state, Request { message, token }| {
        state.shut = Some((Instant::now(), message.word(0)));
        answer(token, true);
    });
    main.on_request(BYE, |state, Request { token, .. }| {
        state.is_over = true;
        answer(token, true);
    });
    let served = serve(&node, &mut main, &mut state, settings.limit());
    state.ledger.print(&json!({"transport": node.transport(), "counters": counters(&node)}));
    served.map(|()| state.ledger.wrong == 0)
}

fn serve(node: &Node, main: &mut Endpoint<State>, state: &mut State, patience: Duration) -> Result<(), Error> {
    let mut full = Some(open_full(node)?);
    while !state.is_over {
        if main.wait(state, TURN) > 0 {
            state.heard = Instant::now();
        }
        if state.heard.elapsed() > patience {
            return Err(format!("no message for {patience:?}{}", problem(node)).into());
        }
        match state.shut {
            Some((since, _)) if since.elapsed() < WHILE => {}
            Some((_, then)) => {
                state.shut = None;
                if then != OPEN {
                    // With all that waits in it.
                    drop(full.take());
                    full = Some(open_full(node)?);
                }
            }
            None => full.iter_mut().for_each(|full| _ = full.poll(state)),
        }
    }
    main.wait_until(state, LINGER, |_| false);
    Ok(())
}

fn open_full(node: &Node) -> Result<Endpoint<State>, Error> {
    let mut full = node.endpoint(FULL)?;
    full.on_request(ECHO, echo);
    Ok(full)
}

/// What keeps the node from working, behind another error.
pub(crate) fn problem(node: &Node) -> String {
    node.health().err().map_or(String::new(), |problem| format!(": {problem}"))
}

/// What arrived goes back; what is wrong does not.
fn echo(state: &mut State, Request { message, token }: Request<'_, State>) {
    let before = state.ledger.wrong;
    state.ledger.check(&message);
    state.heard = Instant::now();
    let sent = if state.ledger.wrong > before {
        token.reply(SPOILT, &[Shape::claimed(&message).number], b"")
    } else {
        token.reply(SAME, message.words(), message.payload())
    };
    sent.unwrap_or_else(|error| _ = writeln!(stderr(), "verify: {error}"));
}

fn answer(token: Token, right: bool) {
    token.reply(ANSWER, &[u64::from(right)], b"").unwrap_or_else(|error| _ = writeln!(stderr(), "verify: {error}"));
}

/// Those that have counted something.
pub(crate) fn counters(node: &Node) -> serde_json::Value {
    let counters = node.counters();
    counters.iter().filter(|(_, value)| *value > 0).map(|(name, value)| (name.to_owned(), json!(value))).collect()
}
