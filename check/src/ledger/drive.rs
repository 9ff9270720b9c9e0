//! The driver: server, clients, faults; then the comparison.

use std::io::{IsTerminal, Write, stderr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::json;

use super::faults::Faults;
use super::judge::{ROWS, Tally, check};
use super::players::{Kind, Players};
use super::{book, process};
use crate::Error;
use crate::program::say;

const TURN: Duration = Duration::from_millis(10);
/// New faults wait while no client has sent anything for this time, and `--silence` besides.
const RECOVERS: Duration = Duration::from_secs(5);

/// What a run is to be like.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Plan {
    /// Requests, of all transports together: at least so many, and as many more as fit until there were --faults
    #[arg(long, default_value_t = 100_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// Clients of each server
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=8))]
    clients: u8,
    /// At most so many milliseconds between two faults
    #[arg(long, default_value_t = 1500)]
    pause: u64,
    /// At most so many milliseconds of silence: processes that are stopped, interfaces that are down
    #[arg(long, default_value_t = 3000)]
    silence: u64,
    /// Give a transport up when no client has sent anything for this time and --silence, in seconds
    #[arg(long, default_value_t = 60)]
    standstill: u64,
    /// Percentage of the frames that each process loses on purpose
    #[arg(long, default_value = "0", value_parser = crate::program::loss)]
    loss: f64,
    /// So many faults at least, of each transport
    #[arg(long, default_value_t = 10)]
    faults: u64,
    /// Draws the faults [an own one]
    #[arg(long)]
    seed: Option<u64>,
    /// A line of JSON for each transport, beside the table
    #[arg(long)]
    json: bool,
    /// Call the server's handler twice, now and then: a bug that is to be found
    #[arg(long)]
    twice: bool,
    /// [all]
    transports: Vec<Kind>,
}

/// `false` where anything is wrong.
pub(crate) fn run(plan: &Plan) -> Result<bool, Error> {
    let stop = process::interrupted()?;
    let kinds = if plan.transports.is_empty() { Kind::value_variants() } else { &plan.transports };
    let seed = plan.seed.unwrap_or_else(book::now);
    _ = writeln!(stderr(), "seed {seed}");
    let directory = process::directory()?;
    let mut outcomes = vec![];
    for (at, &kind) in kinds.iter().enumerate() {
        // A `+` in a name of a transport separates it from the next.
        let place = directory.path().join(kind.name().replace('+', "-"));
        std::fs::create_dir(&place)?;
        let tally = transport(plan, kind, &place, plan.requests / kinds.len() as u64, seed ^ at as u64, &stop)?;
        std::fs::remove_dir_all(place)?;
        if plan.json {
            let mut line = json!({"transport": kind.name(), "told": tally.told});
            ROWS.iter().for_each(|(key, _)| line[key] = tally.get(key).into());
            say(&line);
        }
        outcomes.push((kind, tally));
        if stop.load(Relaxed) {
            break;
        }
    }
    print(&outcomes);
    Ok(outcomes.iter().all(|(_, tally)| tally.get("wrong") == 0 && tally.get("replied") > 0))
}

fn transport(
    plan: &Plan,
    kind: Kind,
    place: &Path,
    requests: u64,
    seed: u64,
    stop: &AtomicBool,
) -> Result<Tally, Error> {
    let clients = usize::from(plan.clients);
    let mut players = Players::new(kind, clients, place, seed, plan.twice, plan.loss)?;
    players.daemons().chain(0..=clients).try_for_each(|player| players.start(player))?;
    let [pause, silence] = [plan.pause, plan.silence].map(Duration::from_millis);
    let mut faults = Faults::new(SmallRng::seed_from_u64(seed), pause, silence);
    let begin = Instant::now();
    let (mut shown, mut moved, mut sent) = (begin, begin, 0);
    while !stop.load(Relaxed) && (sent < requests || faults.counts().iter().sum::<u64>() < plan.faults) {
        sleep(TURN);
        // On a busy machine faults may follow each other too fast for any connection to open between them.
        faults.turn(&mut players, moved.elapsed() < silence + RECOVERS)?;
        players.check()?;
        if shown.elapsed() > Duration::from_millis(500) {
            shown = Instant::now();
            let before = sent;
            sent = players.lives.iter().filter(|life| life.player > 0).map(|life| book::total(&life.book)).sum();
            progress(kind, sent, requests, faults.counts(), begin.elapsed());
            // Without answers the credits are used up soon.
            moved = if sent > before { shown } else { moved };
            if moved.elapsed() > silence + Duration::from_secs(plan.standstill) {
                let why = format!("nothing moves: no client has sent anything for {} s", moved.elapsed().as_secs());
                _ = writeln!(stderr(), "ledger: {}: {why}", kind.name());
                faults.done.fail(why);
                break;
            }
        }
    }
    faults.calm(&mut players)?;
    // What is under way gets there, or comes back.
    sleep(if stop.load(Relaxed) { Duration::ZERO } else { Duration::from_secs(1) });
    let all: Vec<usize> = (1..=clients).collect();
    players.leave(&all)?;
    players.leave(&[0])?;
    players.leave(&players.daemons().collect::<Vec<_>>())?;
    let mut tally = faults.done;
    check(&players, &mut tally)?;
    tally.add("seconds", begin.elapsed().as_secs() as usize);
    Ok(tally)
}

/// In place on a terminal; elsewhere a line now and then.
fn progress(kind: Kind, sent: u64, of: u64, [kills, leaves, stops, flaps]: [u64; 4], time: Duration) {
    let (name, percent, seconds) = (kind.name(), (sent * 100 / of.max(1)).min(100), time.as_secs());
    let done = format!("{kills} kills, {leaves} leaves, {stops} stops, {flaps} link flaps");
    let line = format!("{name}  {sent} requests, {percent} %, {seconds} s; {done}");
    if stderr().is_terminal() {
        _ = write!(stderr(), "\r\x1b[K{line}");
    } else if time.as_millis() % 10_000 < 600 {
        _ = writeln!(stderr(), "{line}");
    }
}

/// The table, and what is wrong.
fn print(outcomes: &[(Kind, Tally)]) {
    if stderr().is_terminal() {
        _ = writeln!(stderr());
    }
    let names: String = outcomes.iter().map(|(kind, _)| format!("{:>12}", kind.name())).collect();
    say(&format_args!("{:<54}{names}{:>13}", "", "all"));
    for (key, words) in ROWS {
        let numbers = outcomes.iter().map(|(_, tally)| tally.get(key));
        let cells: String = numbers.clone().map(|number| format!("{number:>12}")).collect();
        say(&format_args!("{words:<54}{cells}{:>13}", numbers.sum::<u64>()));
    }
    for (kind, tally) in outcomes {
        tally.told.iter().for_each(|told| say(&format_args!("{}: {told}", kind.name())));
    }
}
