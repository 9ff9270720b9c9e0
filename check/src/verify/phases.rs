//! A check, one phase after the other: messages of all lengths, transfers, and a receiver without room.

use std::time::Instant;

use am_api::{Connection, Rights, TransferError, TransferId};
use serde_json::json;

use super::Settings;
use super::client::{APPEARS, Client, TURN, connect};
use super::ledger::Ledger;
use super::server::{self, BYE, CLOSE, COMPARE, FILL, FULL, OPEN, REGION, REGION_BYTES, ROOM, SHUT};
use crate::Error;
use crate::content::{Shape, difference, fill};

type Phase<'a> = &'a dyn Fn(&mut Client) -> Result<(), Error>;

/// Everything, then the sum. `false` where something was wrong or is missing.
pub(crate) fn run(settings: &Settings) -> Result<bool, Error> {
    let mut client = Client::open(settings)?;
    let step = settings.step as usize;
    let begin = Instant::now();
    let mut sum = Ledger::new("sum");
    let mut good = true;
    let phases: [(&'static str, Phase<'_>); 6] = [
        ("alone", &|client| alone(client, step)),
        ("together", &|client| together(client, step)),
        ("bundles", &bundles),
        ("bulk", &transfers),
        ("full", &full),
        ("returned", &returned),
    ];
    for (phase, run) in phases {
        client.state.ledger.follow(phase);
        if let Err(error) = run(&mut client) {
            client.state.ledger.wrong(error.to_string());
        }
        client.state.ledger.print(&json!({}));
        good &= client.state.ledger.is_good();
        sum.add(&client.state.ledger);
    }
    let how = client.endpoint.describe(client.to);
    let (described, framing) = how.map(|how| (how.to_string(), how.framing.to_string())).unzip();
    good &= client.ask(BYE, &[]).is_ok();
    sum.print(&json!({
        "good": good, "framing": framing, "connection": described, "transport": client.node.transport(),
        "took": begin.elapsed().as_secs(), "counters": server::counters(&client.node),
    }));
    Ok(good)
}

/// Lengths of frames at which NICs, drivers and memory end pieces; headers lie before them.
const LIMITS: [usize; 13] = [46, 64, 128, 256, 512, 994, 1024, 1152, 1280, 1500, 2048, 4096, 8192];
/// So far below a limit, and above it, every length is sent.
const AROUND: usize = 32;

/// Small messages, as many as share frames for a while.
const SMALL: u64 = 2000;

/// All lengths up to `most` that are near a limit or fall into the step.
fn lengths(most: usize, step: usize) -> impl Iterator<Item = usize> {
    let near = move |length: usize| LIMITS.iter().chain([&0, &most]).any(|limit| limit.abs_diff(length) <= AROUND);
    // Of very long frames every length would take minutes.
    let step = step.max(most / 2048);
    (0..=most).filter(move |&length| length.is_multiple_of(step.max(1)) || (step < 64 && near(length)))
}

/// One at a time, all of it payload: each in a frame of its own.
pub(crate) fn alone(client: &mut Client, step: usize) -> Result<(), Error> {
    for length in lengths(client.longest(client.to)?, step) {
        client.send(client.to, Shape::bare(length))?;
        let missing = client.state.ledger.missing();
        let patience = if missing > 1 { TURN } else { client.patience / 10 };
        client.endpoint.wait_until(&mut client.state, patience, |state| state.ledger.missing() < missing);
    }
    client.settle();
    Ok(())
}

/// As many at once as there is credit for, with words and payload.
pub(crate) fn together(client: &mut Client, step: usize) -> Result<(), Error> {
    for body in lengths(client.longest(client.to)?, step) {
        client.send_numbered(client.to, body)?;
        client.endpoint.poll(&mut client.state);
    }
    client.settle();
    Ok(())
}

/// Small ones, sent without waiting: they share frames.
pub(crate) fn bundles(client: &mut Client) -> Result<(), Error> {
    for number in 0..SMALL {
        client.send_numbered(client.to, 8 + number as usize % 90)?;
    }
    client.settle();
    Ok(())
}

/// Of transfers.
const LENGTHS: [usize; 7] = [1, 60, 994, 1500, 4097, 100_000, REGION_BYTES];

/// Transfers into the server's memory and out of it, each length there and back.
pub(crate) fn transfers(client: &mut Client) -> Result<(), Error> {
    for (number, length) in (1000..).zip(LENGTHS) {
        put(client, number, length)?;
        get(client, number + 100, length)?;
    }
    Ok(())
}

fn put(client: &mut Client, number: u64, length: usize) -> Result<(), Error> {
    let begun = client.endpoint.put(client.to, REGION, 0, fill(number, length));
    finish(client, begun, length)?;
    if !client.ask(COMPARE, &[number, length as u64])? {
        client.state.ledger.wrong(format!("a put of {length} bytes arrived otherwise than it was sent"));
    }
    Ok(())
}

fn get(client: &mut Client, number: u64, length: usize) -> Result<(), Error> {
    client.ask(FILL, &[number, length as u64])?;
    let into = client.endpoint.register(vec![0; length], Rights::NONE);
    let begun = client.endpoint.get(client.to, REGION, 0, length as u64, &into, 0);
    finish(client, begun, length)?;
    if let Some(at) = difference(number, &into.bytes()) {
        client.state.ledger.wrong(format!("a get of {length} bytes is wrong from byte {at} on"));
    }
    Ok(())
}

fn finish(client: &mut Client, begun: Result<TransferId, TransferError>, length: usize) -> Result<(), Error> {
    begun?;
    client.state.ledger.sent += 1;
    client.state.transfer = None;
    client.endpoint.wait_until(&mut client.state, client.patience, |state| state.transfer.is_some());
    client.state.transfer.take().ok_or("a transfer does not end")??;
    client.state.ledger.received += 1;
    client.state.ledger.bytes += length as u64;
    Ok(())
}

/// A connection may send so much without having been answered, however many there are.
const EACH: usize = 3;
/// So many of them are more than there is room for.
const FLOWS: usize = 48;
const MANY: usize = FLOWS * EACH;

/// A receiver without room has room again: what it rejected is sent again, and all of it arrives.
pub(crate) fn full(client: &mut Client) -> Result<(), Error> {
    let before = client.node.counters().get("rejects_received");
    let flows = overfill(client, OPEN)?;
    client.settle();
    let rejected = client.node.counters().get("rejects_received") - before;
    close(client, &flows);
    if rejected == 0 {
        return Err("nothing was rejected, although the receiver was full".into());
    }
    Ok(())
}

/// It closes: what it had no room for comes back, as it was sent.
pub(crate) fn returned(client: &mut Client) -> Result<(), Error> {
    // On a slow machine it closes before all are sent.
    let flows = overfill(client, CLOSE)?;
    let sent = client.state.ledger.sent;
    let back = sent.saturating_sub(ROOM as u64).max(1);
    let came = client.endpoint.wait_until(&mut client.state, client.patience, |state| state.ledger.received >= back);
    close(client, &flows);
    if !came {
        return Err(format!("of {sent} messages {back} at least should have come back").into());
    }
    // The peer has accepted what it had room for. After the close no handler runs for that, and no reply comes.
    client.state.ledger.forget_up_to(ROOM as u64);
    Ok(())
}

/// More than it has room for, of all lengths.
fn overfill(client: &mut Client, then: u64) -> Result<Vec<Connection>, Error> {
    let flows = (0..FLOWS).map(|_| connect(&client.node, &mut client.endpoint, &mut client.state, FULL, APPEARS));
    let flows = flows.collect::<Result<Vec<_>, _>>()?;
    client.ask(SHUT, &[then])?;
    let most = client.longest(flows[0])?;
    for number in 0..MANY {
        let sent = client.send_numbered(flows[number % FLOWS], 8 + number * (most - 8) / (MANY - 1));
        if then == CLOSE && number > ROOM && sent.is_err() {
            break;
        }
        sent?;
        client.endpoint.poll(&mut client.state);
    }
    Ok(flows)
}

fn close(client: &mut Client, flows: &[Connection]) {
    flows.iter().for_each(|&to| client.endpoint.close(to));
    client.endpoint.wait(&mut client.state, TURN);
}
