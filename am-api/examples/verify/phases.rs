//! Requests and their echoes, of all lengths.

use crate::Error;
use crate::client::{Client, TURN};
use crate::content::Shape;
use crate::protocol::ECHO;

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
pub(super) fn alone(client: &mut Client, step: usize) -> Result<(), Error> {
    for length in lengths(longest(client)?, step) {
        client.send(client.to, ECHO, Shape::bare(length))?;
        let missing = client.state.ledger.missing();
        let patience = if missing > 1 { TURN } else { client.patience / 10 };
        client.endpoint.wait_until(&mut client.state, patience, |state| state.ledger.missing() < missing);
    }
    client.settle();
    Ok(())
}

/// As many at once as there is credit for, with words and payload.
pub(super) fn together(client: &mut Client, step: usize) -> Result<(), Error> {
    for body in lengths(longest(client)?, step) {
        client.send_numbered(client.to, body)?;
        client.endpoint.poll(&mut client.state);
    }
    client.settle();
    Ok(())
}

/// Small ones, sent without waiting: they share frames.
pub(super) fn bundles(client: &mut Client) -> Result<(), Error> {
    for number in 0..SMALL {
        client.send_numbered(client.to, 8 + number as usize % 90)?;
    }
    client.settle();
    Ok(())
}

fn longest(client: &Client) -> Result<usize, Error> {
    Ok(client.endpoint.max_payload(client.to, 0).ok_or("the connection is closed")?)
}
