//! Transfers into the server's memory and out of it.

use am_api::{Rights, TransferError, TransferId};

use crate::Error;
use crate::client::Client;
use crate::content::{difference, fill};
use crate::protocol::{COMPARE, FILL, REGION, REGION_BYTES};

const LENGTHS: [usize; 7] = [1, 60, 994, 1500, 4097, 100_000, REGION_BYTES];

/// Each length there and back.
pub(super) fn transfers(client: &mut Client) -> Result<(), Error> {
    for (number, length) in (1000..).zip(LENGTHS) {
        put(client, number, length)?;
        get(client, number + 100, length)?;
    }
    Ok(())
}

fn put(client: &mut Client, number: u64, length: usize) -> Result<(), Error> {
    let begun = client.endpoint.put(client.to, REGION, 0, fill(number, length));
    finish(client, begun)?;
    let right = client.ask(COMPARE, &[number, length as u64])?;
    count(client, length, (!right).then(|| format!("a put of {length} bytes arrived otherwise than it was sent")));
    Ok(())
}

fn get(client: &mut Client, number: u64, length: usize) -> Result<(), Error> {
    client.ask(FILL, &[number, length as u64])?;
    let into = client.endpoint.register(vec![0; length], Rights::NONE);
    let begun = client.endpoint.get(client.to, REGION, 0, length as u64, &into, 0);
    finish(client, begun)?;
    let flaw = difference(number, &into.bytes());
    count(client, length, flaw.map(|at| format!("a get of {length} bytes is wrong from byte {at} on")));
    Ok(())
}

fn finish(client: &mut Client, begun: Result<TransferId, TransferError>) -> Result<(), Error> {
    begun?;
    client.state.ledger.sent += 1;
    client.state.transfer = None;
    client.endpoint.wait_until(&mut client.state, client.patience, |state| state.transfer.is_some());
    client.state.transfer.take().ok_or("a transfer does not end")??;
    Ok(())
}

fn count(client: &mut Client, length: usize, flaw: Option<String>) {
    let ledger = &mut client.state.ledger;
    ledger.received += 1;
    ledger.bytes += length as u64;
    if let Some(flaw) = flaw {
        ledger.wrong(flaw);
    }
}
