//! Many runs, each from its seed, on all processors.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// The seeds that a variable of the environment names as `FROM..TO`, or else these.
///
/// # Panics
/// The variable names no seeds.
pub fn asked_for(variable: &str, otherwise: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var(variable) else { return otherwise };
    let ends = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    ends.unwrap_or_else(|| panic!("{variable}=FROM..TO, two numbers"))
}

/// Run every seed; `heard` gets each result. Returns the violations by seed. A panic is one, which ends with the command
/// that repeats it; the other runs go on.
pub fn run_all<T>(
    seeds: Range<u64>,
    run: impl Fn(u64) -> Result<T, String> + Sync,
    repeat: impl Fn(u64) -> String + Sync,
    heard: impl FnMut(Result<T, &str>) + Send,
) -> Vec<(u64, String)> {
    let (next, heard) = (AtomicU64::new(seeds.start), Mutex::new((heard, vec![])));
    let panicked = |seed: u64, why: Box<dyn Any + Send>| {
        let text = why.downcast_ref::<String>().map(String::as_str).or(why.downcast_ref::<&str>().copied());
        Err(format!("seed {seed}: panic: {}\n    {}", text.unwrap_or("?"), repeat(seed)))
    };
    let work = || {
        while let Some(seed) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < seeds.end) {
            let result = catch_unwind(AssertUnwindSafe(|| run(seed))).unwrap_or_else(|why| panicked(seed, why));
            let (heard, failed) = &mut *heard.lock().expect("nobody panics with it");
            match result {
                Ok(result) => heard(Ok(result)),
                Err(why) => {
                    heard(Err(&why));
                    failed.push((seed, why));
                }
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get());
    thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(work)));
    let (_, mut failed) = heard.into_inner().expect("nobody panicked with it");
    failed.sort();
    failed
}
