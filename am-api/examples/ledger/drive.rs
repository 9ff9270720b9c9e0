//! The driver: server, clients, faults; then the comparison.

use std::io::{IsTerminal, Write, stderr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::json;

use crate::check::{Tally, World, check};
use crate::faults::{Done, Faults};
use crate::players::Players;
use crate::stage::{Kind, Stage};
use crate::{Error, book, process, say};

const TURN: Duration = Duration::from_millis(10);

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

struct Outcome {
    kind: Kind,
    tally: Tally,
    done: Done,
    seconds: f64,
}

/// `false` where anything is wrong.
pub(crate) fn run(plan: &Plan) -> Result<bool, Error> {
    let stop = process::interrupted()?;
    let kinds = if plan.transports.is_empty() { Kind::ALL.to_vec() } else { plan.transports.clone() };
    let seed = plan.seed.unwrap_or_else(book::now);
    eprintln!("seed {seed}");
    let directory = process::directory()?;
    let mut outcomes = vec![];
    for (at, &kind) in kinds.iter().enumerate() {
        let place = directory.path().join(kind.name());
        std::fs::create_dir(&place)?;
        let outcome =
            transport(plan, kind, place.clone(), plan.requests / kinds.len() as u64, seed ^ at as u64, &stop)?;
        std::fs::remove_dir_all(place)?;
        if plan.json {
            say(&outcome.json());
        }
        outcomes.push(outcome);
        if stop.load(Relaxed) {
            break;
        }
    }
    print(&outcomes);
    Ok(outcomes.iter().all(|outcome| outcome.tally.wrong == 0 && outcome.tally.replied > 0))
}

fn transport(
    plan: &Plan,
    kind: Kind,
    place: PathBuf,
    requests: u64,
    seed: u64,
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    let clients = usize::from(plan.clients);
    let stage = Stage::new(kind, clients, &place)?;
    let mut players = Players::new(stage, clients, place, seed, plan.twice);
    (0..=clients).try_for_each(|player| players.start(player))?;
    let [pause, silence] = [plan.pause, plan.silence].map(Duration::from_millis);
    let mut faults = Faults::new(SmallRng::seed_from_u64(seed), pause, silence);
    let (begin, mut shown) = (Instant::now(), Instant::now());
    let mut sent = 0;
    while !stop.load(Relaxed) && (sent < requests || faults.done.all() < plan.faults) {
        sleep(TURN);
        faults.turn(&mut players)?;
        players.check()?;
        if shown.elapsed() > Duration::from_millis(500) {
            shown = Instant::now();
            sent = players.lives.iter().filter(|life| life.player > 0).map(|life| book::total(&life.book)).sum();
            progress(kind, sent, requests, &faults.done, begin.elapsed());
        }
    }
    faults.calm(&mut players)?;
    // What is under way gets there, or comes back.
    sleep(if stop.load(Relaxed) { Duration::ZERO } else { Duration::from_secs(1) });
    let all: Vec<usize> = (1..=clients).collect();
    players.leave(&all)?;
    players.leave(&[0])?;
    let tally = check(&World { lives: &players.lives, silences: &players.silences })?;
    Ok(Outcome { kind, tally, done: faults.done, seconds: begin.elapsed().as_secs_f64() })
}

/// In place on a terminal; elsewhere a line now and then.
fn progress(kind: Kind, sent: u64, of: u64, done: &Done, time: Duration) {
    let percent = (sent * 100 / of.max(1)).min(100);
    let line = format!("{}  {sent} requests, {percent} %, {} s; {done}", kind.name(), time.as_secs());
    if stderr().is_terminal() {
        _ = write!(stderr(), "\r\x1b[K{line}");
    } else if time.as_millis() % 10_000 < 600 {
        eprintln!("{line}");
    }
}

impl Outcome {
    /// All that is counted: key, words, number.
    fn rows(&self) -> Vec<(&'static str, &'static str, u64)> {
        let Done { kills, leaves, stops, flaps } = self.done;
        let mut rows = self.tally.rows().to_vec();
        let wrong = rows.pop();
        rows.extend([
            ("server_kills", "the server was killed", kills[0]),
            ("client_kills", "clients were killed", kills[1]),
            ("server_leaves", "the server left", leaves[0]),
            ("client_leaves", "clients left", leaves[1]),
            ("server_stops", "the server was stopped for a while", stops[0]),
            ("client_stops", "clients were stopped for a while", stops[1]),
            ("server_flaps", "the server's interface was down", flaps[0]),
            ("client_flaps", "clients' interfaces were down", flaps[1]),
            ("seconds", "seconds", self.seconds as u64),
        ]);
        rows.extend(wrong);
        rows
    }

    fn json(&self) -> serde_json::Value {
        let mut line = json!({"transport": self.kind.name(), "told": self.tally.told});
        if let Some(line) = line.as_object_mut() {
            line.extend(self.rows().into_iter().map(|(key, _, number)| (key.to_owned(), json!(number))));
        }
        line
    }
}

/// The table, and what is wrong.
fn print(outcomes: &[Outcome]) {
    if stderr().is_terminal() {
        eprintln!();
    }
    let columns: Vec<_> = outcomes.iter().map(Outcome::rows).collect();
    let Some(first) = columns.first() else { return };
    let cells = |cells: Vec<String>| cells.into_iter().map(|cell| format!("{cell:>12}")).collect::<String>();
    let names = outcomes.iter().map(|outcome| outcome.kind.name().to_owned()).collect();
    say(&format_args!("{:<54}{}{:>13}", "", cells(names), "all"));
    for (at, (_, words, _)) in first.iter().enumerate() {
        let numbers: Vec<u64> = columns.iter().map(|rows| rows[at].2).collect();
        let sum: u64 = numbers.iter().sum();
        say(&format_args!("{words:<54}{}{sum:>13}", cells(numbers.iter().map(u64::to_string).collect())));
    }
    for outcome in outcomes {
        for told in &outcome.tally.told {
            say(&format_args!("{}: {told}", outcome.kind.name()));
        }
    }
}
