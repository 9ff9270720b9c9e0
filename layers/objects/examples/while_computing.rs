//! What it costs a computing program that others write: a helper serves its space, on the program's core.
//!
//! ```text
//! cargo run --release -p am-objects --example while_computing -- [TRANSPORT [SECONDS [ROUNDS]]]
//!
//!   core 0                                         core 1
//!   the program computes, and never polls          another process writes 0, 100, 1,000, 10,000 times a second
//!   the helper sleeps until a write arrives
//! ```
//!
//! Both processes are threads of this one, with nodes of their own. A turn without writes is beside each turn with them. The loss is in times of
//! the processor, not of a clock, so that other programs of the machine do not count: what the helper uses on the program's core, and what the
//! program's loop becomes slower by, because its caches are cold. The exit code is 1 if the program does not see the writes.

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::process::{ExitCode, id};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use am_api::{Node, pin};
use am_objects::{CallError, Helper, Shared, Space, Wire, object};
use clap::Parser;

type Failure = Box<dyn Error + Send + Sync>;

const LONG: Duration = Duration::from_secs(20);
const RATES: [u64; 4] = [0, 100, 1_000, 10_000];
/// The program's core, and that of the process that writes.
const CORES: [usize; 2] = [0, 1];

#[derive(Default, Wire)]
struct Bound {
    writes: u64,
}

#[object]
impl Bound {
    #[read]
    fn writes(&self) -> u64 {
        self.writes
    }

    #[write]
    fn lower(&mut self) {
        self.writes += 1;
    }
}

/// What a turn has seen.
struct Turn {
    /// Bodies of the loop, by nanosecond of the program's thread.
    speed: f64,
    /// What the helper's thread used for each nanosecond of the program's.
    helper: f64,
    /// Writes that the program saw, a second.
    writes: f64,
}

/// The time that a thread of this process has had a core, in nanoseconds.
fn used(thread: &str) -> Result<u64, Failure> {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"))?;
    Ok(text.split_whitespace().next().ok_or("no time in schedstat")?.parse()?)
}

/// This thread's number.
fn own() -> Result<String, Failure> {
    let link = fs::read_link("/proc/thread-self")?;
    Ok(link.file_name().ok_or("no number")?.to_string_lossy().into_owned())
}

/// The loop of the program: 32 KiB that stay in a cache.
fn body(numbers: &mut [u64]) {
    for number in numbers {
        *number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    }
}

/// A process that others write to, or that writes.
fn start(name: &'static str, on: &str, core: usize) -> Result<(Helper, Shared<Bound>, String), Failure> {
    let on = on.to_owned();
    let (helper, (bound, thread)) = Helper::start(name, move || {
        pin(core)?;
        let node = Node::open(name, &on)?;
        let builder = Space::builder(&node).object::<Bound>();
        let mut space = if name == "alpha" { builder.found("lab")? } else { builder.join("lab", &["alpha"])? };
        let wanted = if name == "alpha" { 1 } else { 2 };
        space.wait_until(LONG, |space| space.is_primary() && space.view().members.len() == wanted);
        let bound = space.create("bound", &Bound::default())?;
        Ok::<_, Failure>((space, (bound, own()?)))
    })?;
    Ok((helper, bound, thread))
}

/// Write at this rate, until it is over.
fn write(bound: &Shared<Bound>, rate: &AtomicU64, is_over: &AtomicBool) -> Result<(), CallError> {
    let mut next = Instant::now();
    while !is_over.load(Relaxed) {
        let now = match rate.load(Relaxed) {
            0 => Duration::from_millis(1),
            rate => {
                bound.write().lower().wait()?;
                Duration::from_secs(1) / rate as u32
            }
        };
        next = (next + now).max(Instant::now());
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

/// Compute for this time.
fn turn(time: Duration, bound: &Shared<Bound>, helper: &str) -> Result<Turn, Failure> {
    let (mut numbers, program) = (vec![1_u64; 4096], own()?);
    let (before, began, writes) = ([used(&program)?, used(helper)?], Instant::now(), bound.read().writes().wait()?);
    let mut bodies = 0_u64;
    while began.elapsed() < time {
        (0..16).for_each(|_| body(black_box(&mut numbers)));
        bodies += 16;
    }
    let (program, helper) = ((used(&program)? - before[0]) as f64, (used(helper)? - before[1]) as f64);
    let writes = (bound.read().writes().wait()? - writes) as f64 / began.elapsed().as_secs_f64();
    Ok(Turn { speed: bodies as f64 / program, helper: helper / program, writes })
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// Turns of each rate, each beside one without writes. Returns whether the program saw the writes.
fn measure(
    time: Duration,
    rounds: usize,
    bound: &Shared<Bound>,
    helper: &str,
    rate: &AtomicU64,
) -> Result<bool, Failure> {
    let mut turns: Vec<Vec<[f64; 3]>> = RATES.iter().map(|_| vec![]).collect();
    for _ in 0..rounds {
        for (wanted, turns) in RATES.into_iter().zip(&mut turns) {
            rate.store(0, Relaxed);
            thread::sleep(Duration::from_millis(20));
            let quiet = turn(time, bound, helper)?;
            rate.store(wanted, Relaxed);
            thread::sleep(Duration::from_millis(20));
            let busy = turn(time, bound, helper)?;
            let slower = 1.0 - busy.speed / quiet.speed;
            turns.push([busy.writes, 100.0 * busy.helper / (1.0 + busy.helper), 100.0 * slower]);
        }
    }
    println!("wanted/s  seen/s  helper %  slower %  loss %  us a write");
    let mut has_seen = true;
    for (wanted, turns) in RATES.into_iter().zip(&turns) {
        let [seen, helper, slower] = [0, 1, 2].map(|nth| median(turns.iter().map(|turn| turn[nth]).collect()));
        let loss = median(turns.iter().map(|turn| turn[1] + turn[2]).collect());
        let each = if seen > 0.0 { helper * 1e4 / seen } else { 0.0 };
        println!("{wanted:>8}  {seen:>6.0}  {helper:>8.2}  {slower:>8.2}  {loss:>6.2}  {each:>10.2}");
        has_seen &= (wanted > 0) == (seen > 0.0);
    }
    Ok(has_seen)
}

/// Measure what it costs a program that computes that others write to its objects. The exit code is 1 if the program does not see the writes.
#[derive(Parser)]
struct Options {
    /// A transport that two nodes of one process share. Shared memory unless one is named.
    transport: Option<String>,
    /// The seconds of a turn.
    #[arg(default_value = "0.5", value_parser = seconds, allow_negative_numbers = true)]
    seconds: Duration,
    /// The number of rounds.
    #[arg(default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    let time = text.parse().ok().and_then(|time| Duration::try_from_secs_f64(time).ok());
    time.filter(|time| !time.is_zero()).ok_or("a number above 0 is needed")
}

fn main() -> Result<ExitCode, Failure> {
    let Options { transport, seconds: time, rounds } = Options::parse();
    let on = transport.unwrap_or_else(|| format!("shm:while-computing-{}", id()));
    let (serves, bound, thread) = start("alpha", &on, CORES[0])?;
    let (writes, other, _) = start("beta", &on, CORES[1])?;
    let (rate, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
    let writer = thread::spawn({
        let (rate, is_over) = (rate.clone(), is_over.clone());
        move || {
            _ = pin(CORES[1]);
            write(&other, &rate, &is_over)
        }
    });
    pin(CORES[0])?;
    println!(
        "a helper on the program's core; {rounds} rounds of {time:?}, over {}",
        on.split(':').next().unwrap_or(&on)
    );
    let has_seen = measure(time, rounds.into(), &bound, &thread, &rate)?;
    is_over.store(true, Relaxed);
    writer.join().expect("no panic")?;
    writes.stop(LONG)?;
    serves.stop(LONG)?;
    Ok(if has_seen { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
