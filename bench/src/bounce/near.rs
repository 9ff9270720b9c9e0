//! The sender, which times.

use std::time::{Duration, Instant};

use am_api::{Connection, Endpoint, HandlerId, NotOpen};

use super::seam::Seen;
use super::{ENDPOINT, Open, RECEIVE_FRAMES};
use crate::driver::am::facility;
use crate::error::Error;
use crate::measure::latency::{RoundTrips, round_trips};
use crate::plan::Amount;
use crate::watch::Watch;

const WORK: HandlerId = HandlerId(0);
/// Connections. Each repeats a rejected request at its own, ever slower pace. So many round trips need many
/// connections, but few enough that one request at a time is in flight.
const FLOWS: usize = 64;
/// The limit of every wait.
const SETUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Fill the receiver, then time rejects.
pub(super) fn measure(side: &Open, size: usize, amount: &Amount, watch: &Watch) -> Result<RoundTrips, Error> {
    let mut endpoint = side.node.endpoint::<()>("app").map_err(facility)?;
    let (mut flows, begin) = (Vec::with_capacity(FLOWS), Instant::now());
    while flows.len() < FLOWS {
        let to = endpoint.connect("beta", ENDPOINT).map_err(facility)?;
        while endpoint.ready(to) == Err(NotOpen::Connecting) {
            endpoint.poll(&mut ());
            check(begin, watch)?;
        }
        match endpoint.ready(to) {
            Ok(()) => flows.push(to),
            // The peer may not be there yet.
            Err(_) => endpoint.close(to),
        }
    }
    fill(&mut endpoint, &flows, size, (&side.seen, watch))?;
    let mut all = round_trips();
    time(&mut endpoint, &side.seen, amount.warm_up, watch, &mut |_| {})?;
    time(&mut endpoint, &side.seen, amount.time, watch, &mut |time| all.saturating_record(time.as_nanos() as u64))?;
    Ok(all)
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
    while sent < FLOWS.max(2 * RECEIVE_FRAMES) || !seen.any.get() {
        if sent < FLOWS.max(2 * RECEIVE_FRAMES) {
            match endpoint.try_request(flows[sent % FLOWS], WORK, &[], &payload) {
                Ok(()) => sent += 1,
                Err(error) if error.is_temporary() => {}
                Err(error) => return Err(Error::Lost(error.to_string())),
            }
        }
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
