//! A receiver without room: what it rejects is sent again until there is room, or comes back when it closes.

use am_api::Connection;

use crate::Error;
use crate::client::{APPEARS, Client, TURN, connect};
use crate::protocol::{CLOSE, FULL, OPEN, ROOM, SHUT};

/// A connection may send so much without having been answered, however many there are.
const EACH: usize = 3;
/// So many of them are more than there is room for.
const FLOWS: usize = 48;
const MANY: usize = FLOWS * EACH;

/// It has room again: all of them arrive.
pub(super) fn full(client: &mut Client) -> Result<(), Error> {
    let before = client.node.counters().get("rejects_received");
    let flows = fill(client, OPEN)?;
    client.settle();
    let rejected = client.node.counters().get("rejects_received") - before;
    close(client, &flows);
    if rejected == 0 {
        return Err("nothing was rejected, although the receiver was full".into());
    }
    Ok(())
}

/// It closes: what it had no room for comes back, as it was sent.
pub(super) fn returned(client: &mut Client) -> Result<(), Error> {
    // On a slow machine it closes before all are sent.
    let flows = fill(client, CLOSE)?;
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
fn fill(client: &mut Client, then: u64) -> Result<Vec<Connection>, Error> {
    let flows = (0..FLOWS).map(|_| connect(&client.node, &mut client.endpoint, &mut client.state, FULL, APPEARS));
    let flows = flows.collect::<Result<Vec<_>, _>>()?;
    client.ask(SHUT, &[then])?;
    let most = client.endpoint.max_payload(flows[0], 0).ok_or("the connection is closed")?;
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
