//! Many runs, on all cores.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use super::{Report, case_of, run};

/// The results of many runs.
#[derive(Debug)]
pub struct Tally {
    pub seeds: u64,
    /// The violations by seed, each with the command that repeats it.
    pub failed: Vec<(u64, String)>,
    pub delivered: u64,
    pub returned: u64,
    pub seconds: f64,
}

impl Tally {
    /// One line: the count and the rate.
    pub fn line(&self) -> String {
        let Tally { seeds, seconds, failed, .. } = self;
        format!("{seeds} seeds, {} failed, in {seconds:.1} s: {:.0} a second", failed.len(), *seeds as f64 / seconds)
    }
}

/// Run every seed. After each one `progress` gets how many are done, and the violation if there is one.
pub fn run_many(seeds: Range<u64>, progress: &(dyn Fn(u64, Option<&str>) + Sync)) -> Tally {
    let begin = Instant::now();
    let (next, done) = (AtomicU64::new(seeds.start), AtomicU64::new(0));
    let tally = Tally { seeds: seeds.end - seeds.start, failed: vec![], delivered: 0, returned: 0, seconds: 0.0 };
    let tally = Mutex::new(tally);
    let work = || {
        while let Some(seed) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < seeds.end) {
            let result = run_caught(seed);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, result.as_ref().err().map(String::as_str));
            let mut tally = tally.lock().expect("nobody panics with it");
            match result {
                Ok(report) => {
                    (tally.delivered, tally.returned) =
                        (tally.delivered + report.delivered, tally.returned + report.returned)
                }
                Err(why) => tally.failed.push((seed, why)),
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get());
    thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(work)));
    let mut tally = tally.into_inner().expect("nobody panicked with it");
    tally.failed.sort();
    tally.seconds = begin.elapsed().as_secs_f64();
    tally
}

/// Run a seed. A panic is a failure, and the other runs go on.
fn run_caught(seed: u64) -> Result<Report, String> {
    let panicked = |why: Box<dyn Any + Send>| {
        let text = why.downcast_ref::<String>().map(String::as_str).or(why.downcast_ref::<&str>().copied());
        Err(format!("seed {seed}: panic: {}\n    {}", text.unwrap_or("?"), case_of(seed).repeat_command()))
    };
    catch_unwind(AssertUnwindSafe(|| run(seed))).unwrap_or_else(panicked)
}
