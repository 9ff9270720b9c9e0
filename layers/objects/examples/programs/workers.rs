//! Workers: threads of this process, each with a node and a member of its own. The first one that fails says why, and the others stop waiting
//! for it.

use std::error::Error;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use am_api::Node;
use am_objects::Space;

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// A space has at most this number of members.
pub(crate) const MOST: i64 = 64;
/// The others are waited for until then.
const LONG: Duration = Duration::from_secs(30);
/// A worker that joins knows why it cannot. The one that it joins gives it this time to say so.
const LONGER: Duration = Duration::from_secs(35);
/// A failure of another worker is looked for this often.
const TURN: Duration = Duration::from_millis(50);

/// Why the first worker that failed did.
#[derive(Default)]
pub(crate) struct Cause(OnceLock<Failure>);

/// Let this number of workers work. Returns what each has found.
pub(crate) fn run<R: Send>(
    workers: usize,
    work: impl Fn(usize, &Cause) -> Result<R, Failure> + Sync,
) -> Result<Vec<R>, Failure> {
    let cause = Cause::default();
    let found = thread::scope(|scope| {
        let (work, cause) = (&work, &cause);
        let start = |number| scope.spawn(move || work(number, cause).map_err(|why| cause.0.set(why)).ok());
        let threads: Vec<_> = (0..workers).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Option<Vec<R>>>()
    });
    found.ok_or_else(|| cause.0.into_inner().unwrap_or_else(|| "a worker has failed".into()))
}

/// Wait until all workers are members. The first one has founded the space.
pub(crate) fn wait_for_all(space: &mut Space, number: usize, workers: usize, cause: &Cause) -> Result<(), Failure> {
    let end = Instant::now() + if number == 0 { LONGER } else { LONG };
    while !space.is_primary() || space.view().members.len() < workers {
        if cause.0.get().is_some() || Instant::now() >= end {
            let why = || "the other workers are not there: the transport has to connect nodes of one process".into();
            return Err(space.health().unwrap_or_else(why).into());
        }
        space.wait(TURN);
    }
    Ok(())
}

/// Whether the transport has room for this number of nodes. To find out only once one thread has computed all would be late.
pub(crate) fn check(transport: &str, workers: usize) -> Result<(), Failure> {
    let nodes = (0..workers).map(|number| Node::open(&format!("check-{number}"), transport));
    Ok(nodes.collect::<Result<Vec<_>, _>>().map(drop)?)
}
