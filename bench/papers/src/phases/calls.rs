//! What the calls cost that move nothing, beside the least that a call of the kernel costs.

use std::hint::black_box;
use std::time::{Duration, Instant};

use am_dp::{Dp, Dpid, Nid, Point};
use nix::unistd::getppid;

use super::caches::clock_cost;
use am_measure::Error;
use am_measure::drivers::{Vertex, facility};

/// Batches of one call in a round, and calls in a batch: one reading of the clock is shared by so many.
const BATCHES: usize = 200;
const CALLS: usize = 64;
/// Bytes of the pools here.
const POOL: usize = 64 << 10;
/// The longest that an edge within the process takes.
const CONNECTING: Duration = Duration::from_secs(1);

/// A call, and its times in nanoseconds, one for each batch.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) times: Vec<f64>,
}

/// The call that the others are compared with.
pub(super) const NULL_CALL: &str = "getppid, a null system call";

/// Endpoints without an edge, and with one to themselves.
struct Points {
    unconnected: Point,
    looped: Point,
}

/// Measure each call once more. The far side must be quiet.
pub(super) fn round(calls: &mut Vec<Call>, vertex: &mut Vertex, own: Nid) -> Result<(), Error> {
    let dp = &mut vertex.dp;
    let points = Points {
        unconnected: dp.open(Dpid(2), vec![0; POOL]).map_err(facility)?,
        looped: dp.open(Dpid(3), vec![0; POOL]).map_err(facility)?,
    };
    dp.connect(&points.looped, own, Dpid(3), CONNECTING).map_err(facility)?;
    let clock = clock_cost();
    let mut add = |name, times: Vec<f64>| match calls.iter_mut().find(|call| call.name == name) {
        Some(call) => call.times.extend(times),
        None => calls.push(Call { name, times }),
    };
    add("the clock", batches(clock, || (), |()| _ = black_box(Instant::now())));
    add(NULL_CALL, batches(clock, || (), |()| _ = black_box(getppid())));
    add("write, refused: no edge", batches(clock, || (), |()| _ = black_box(dp.write(&points.unconnected, b"m"))));
    add("read, finds nothing", batches(clock, || (), |()| _ = black_box(dp.read(&points.unconnected))));
    add("fsync, refused: nothing read", batches(clock, || (), |()| _ = black_box(dp.fsync(&points.unconnected, 1))));
    add("fsync, of a message", fsyncs(dp, &points.looped, clock)?);
    dp.close(points.unconnected);
    dp.close(points.looped);
    Ok(())
}

/// The time of a call in each batch, after what `prepare` does.
fn batches<T>(clock: u64, mut prepare: impl FnMut() -> T, mut call: impl FnMut(&mut T)) -> Vec<f64> {
    let mut batch = || {
        let mut prepared = prepare();
        let start = Instant::now();
        (0..CALLS).for_each(|_| call(&mut prepared));
        (start.elapsed().as_nanos() as u64).saturating_sub(clock) as f64 / CALLS as f64
    };
    batch();
    (0..BATCHES).map(|_| batch()).collect()
}

/// Messages to itself are read, and then given back.
fn fsyncs(dp: &mut Dp<Vec<u8>>, looped: &Point, clock: u64) -> Result<Vec<f64>, Error> {
    let mut times = vec![];
    for _ in 0..BATCHES {
        for _ in 0..CALLS {
            dp.write(looped, b"m").map_err(facility)?;
        }
        for _ in 0..CALLS {
            dp.read(looped).map_err(facility)?.ok_or_else(|| Error::Lost("a message to itself".to_owned()))?;
        }
        let start = Instant::now();
        let given_back = (0..CALLS).filter(|_| dp.fsync(looped, 1)).count();
        let time = (start.elapsed().as_nanos() as u64).saturating_sub(clock) as f64;
        if given_back != CALLS {
            return Err(Error::Lost(format!("{given_back} of {CALLS} messages were given back")));
        }
        times.push(time / CALLS as f64);
    }
    Ok(times)
}
