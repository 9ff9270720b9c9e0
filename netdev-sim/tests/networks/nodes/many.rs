//! Many runs, on all cores.

use std::ops::Range;
use std::time::Instant;

use am_netdev_sim::check::seeds;

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
pub fn run_many(range: Range<u64>, progress: &(dyn Fn(u64, Option<&str>) + Sync)) -> Tally {
    let (begin, mut done) = (Instant::now(), 0);
    let seeds = range.end - range.start;
    let mut tally = Tally { seeds, failed: vec![], delivered: 0, returned: 0, seconds: 0.0 };
    tally.failed = seeds::run_all(
        range,
        run,
        |seed| case_of(seed).repeat_command(),
        |result| {
            done += 1;
            progress(done, result.as_ref().err().copied());
            let Report { delivered, returned, .. } = result.unwrap_or_default();
            (tally.delivered, tally.returned) = (tally.delivered + delivered, tally.returned + returned);
        },
    );
    tally.seconds = begin.elapsed().as_secs_f64();
    tally
}
