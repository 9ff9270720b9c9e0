//! The sender, which times.

use std::time::{Duration, Instant};

use am_api::{Connection, Endpoint, HandlerId, NotOpen};

use super::seam::Seen;
use super::{By, CloseOnDrop, ENDPOINT, Open, Plan, RECEIVE_FRAMES, Shutdown, Turn, open};
use crate::cores::pin;
use crate::driver::am::facility;
use crate::error::Error;
use crate::measure::latency::round_trips;
use crate::plan::Amount;
use crate::watch::Watch;

const WORK: HandlerId = HandlerId(0);
/// Connections. Each repeats a rejected request at its own, ever slower pace. So many round trips need many
/// connections, but few enough that one request at a time is in flight.
const FLOWS: usize = 64;
/// The limit of every wait.
const SETUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Fill the receiver, then time rejects.
pub(super) fn measure(
    (round, by): (usize, By),
    (on, plan): (&str, Plan),
    amount: &Amount,
    shutdown: &Shutdown,
    watch: &Watch,
) -> Result<Turn, Error> {
    pin(plan.cores.near)?;
    let Open { node, seen, mode, xdp } = open("alpha", on, (plan, None), false, watch)?;
    let mut endpoint = node.endpoint::<()>("app").map_err(facility)?;
    // Dropped before the node closes.
    let _closing = CloseOnDrop(shutdown);
    let flows = connect(&mut endpoint, watch)?;
    fill(&mut endpoint, &flows, plan.size, (&seen, watch))?;
    let mut turn = Turn { round, by, mode, xdp, round_trips: round_trips() };
    time(&mut endpoint, &seen, amount.warm_up, watch, &mut |_| {})?;
    time(&mut endpoint, &seen, amount.time, watch, &mut |time| {
        turn.round_trips.saturating_record(time.as_nanos() as u64);
    })?;
    Ok(turn)
}

/// Open all connections.
fn connect(endpoint: &mut Endpoint<()>, watch: &Watch) -> Result<Vec<Connection>, Error> {
    let begin = Instant::now();
    let mut flows = Vec::with_capacity(FLOWS);
    while flows.len() < FLOWS {
        let to = endpoint.connect("beta", ENDPOINT).map_err(facility)?;
        loop {
            match endpoint.ready(to) {
                Ok(()) => break flows.push(to),
                Err(NotOpen::Connecting) => {}
                // The peer may not be there yet.
                Err(_) => {
                    endpoint.close(to);
                    break;
                }
            }
            endpoint.poll(&mut ());
            check(begin, watch)?;
        }
    }
    Ok(flows)
}

/// Send one request on each connection, and then more until one is rejected.
fn fill(
    endpoint: &mut Endpoint<()>,
    flows: &[Connection],
    size: usize,
    (seen, watch): (&Seen, &Watch),
) -> Result<(), Error> {
    let (begin, payload) = (Instant::now(), vec![7; size]);
    let mut sent = 0;
    while sent < FLOWS.max(2 * RECEIVE_FRAMES) {
        let to = flows[sent % FLOWS];
        match endpoint.try_request(to, WORK, &[], &payload) {
            Ok(()) => sent += 1,
            Err(error) if error.is_temporary() => {}
            Err(error) => return Err(Error::Lost(error.to_string())),
        }
        endpoint.poll(&mut ());
        check(begin, watch)?;
    }
    while !seen.any.get() {
        endpoint.poll(&mut ());
        check(begin, watch)?;
    }
    Ok(())
}

/// For this long, time every request that leaves alone and is rejected; longer if none was.
fn time(
    endpoint: &mut Endpoint<()>,
    seen: &Seen,
    length: Duration,
    watch: &Watch,
    each: &mut dyn FnMut(Duration),
) -> Result<(), Error> {
    let (begin, mut any) = (Instant::now(), false);
    seen.forget();
    loop {
        endpoint.poll(&mut ());
        if let Some(left) = seen.back.take() {
            each(left.elapsed());
            any = true;
        }
        if begin.elapsed() >= length {
            match any {
                true => return watch.check(),
                false => check(begin, watch)?,
            }
        }
    }
}

fn check(begin: Instant, watch: &Watch) -> Result<(), Error> {
    watch.check()?;
    let why = || Error::Lost("the receiver was not there, or not full, in time".to_owned());
    if begin.elapsed() > SETUP_TIMEOUT { Err(why()) } else { Ok(()) }
}
