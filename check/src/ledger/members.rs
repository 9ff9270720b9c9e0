//! Many nodes on one switch. Each asks all others. Again and again one is killed and one is added. Checks the requests as
//! `run` does, and that each node knew in time which others were there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, io};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use super::judge::{ROWS, Tally, check};
use super::players::{End, Life, Players};
use super::{book, process};
use crate::Error;
use crate::program::say;

const TURN: Duration = Duration::from_millis(10);
/// At the end, what is under way arrives or comes back.
const CALM: Duration = Duration::from_secs(4);

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Plan {
    /// Hosts on the switch; one of them is empty at any time
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u8).range(3..=64))]
    hosts: u8,
    /// Seconds for which nodes are killed and added; up to four times as long where the kernel needs long for each
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Milliseconds between two kills; a node is added with each
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pause: u64,
    /// Milliseconds within which each node has to know of a kill or an addition
    #[arg(long, default_value_t = 2000)]
    within: u64,
    /// Draws the nodes that are killed [an own one]
    #[arg(long)]
    seed: Option<u64>,
    /// Also print a line of JSON
    #[arg(long)]
    json: bool,
}

/// `false` where anything is wrong.
pub(crate) fn run(plan: &Plan) -> Result<bool, Error> {
    let stop = process::interrupted()?;
    let directory = process::directory()?;
    let seed = plan.seed.unwrap_or_else(book::now);
    let mut random = SmallRng::seed_from_u64(seed);
    let hosts = usize::from(plan.hosts);
    let mut players = Players::mesh(hosts, directory.path(), seed)?;
    // The last host is empty at first.
    (1..hosts).try_for_each(|player| players.start(player))?;
    let (begin, mut empty, mut kills) = (Instant::now(), hosts, 0);
    sleep(Duration::from_secs(2));
    let pause = Duration::from_millis(plan.pause);
    let mut next = Instant::now();
    // On a busy machine the kernel needs seconds for the end of a process with AF_XDP sockets. There all of it takes longer.
    let (wanted, until) = (plan.seconds * 1000 / plan.pause, next + 4 * Duration::from_secs(plan.seconds));
    while !stop.load(Relaxed) && kills < wanted as usize && Instant::now() < until {
        players.check()?;
        if Instant::now() >= next {
            next = Instant::now() + pause;
            let killed = (1..=hosts).filter(|&player| player != empty).nth(random.random_range(0..hosts - 1));
            players.kill(killed.unwrap_or(1));
            // Half of them have the name of the node that was killed there.
            if random.random_bool(0.5) {
                players.rename(empty);
            }
            players.start(empty)?;
            (empty, kills) = (killed.unwrap_or(1), kills + 1);
        }
        sleep(TURN);
    }
    sleep(CALM);
    players.check()?;
    let end = book::now();
    players.leave(&(1..=hosts).collect::<Vec<_>>())?;
    let mut tally = Tally::default();
    check(&players, &mut tally)?;
    let views = Views::read(&players.lives, end)?.check(plan.within);
    tally.add("client_kills", kills);
    tally.add("seconds", begin.elapsed().as_secs() as usize);
    report(plan, seed, &tally, &views);
    Ok(tally.get("wrong") == 0 && views.wrong.is_empty() && tally.get("replied") > 0 && views.seen > 0)
}

fn report(plan: &Plan, seed: u64, tally: &Tally, views: &Outcome) {
    say(&format_args!("seed {seed}"));
    for (key, words) in ROWS.iter().filter(|(key, _)| tally.get(key) > 0 || *key == "wrong") {
        say(&format_args!("{words:<54}{:>12}", tally.get(key)));
    }
    say(&format_args!("{:<54}{:>12}", "changes of members that a node had to see", views.seen));
    say(&format_args!("{:<54}{:>12}", "  not seen in time", views.wrong.len()));
    for (kind, delays) in [("an addition", &views.joins), ("a kill", &views.kills)] {
        let part = |per_mille: usize| delays.get((delays.len() * per_mille / 1000).min(delays.len() - 1)).unwrap_or(&0);
        if !delays.is_empty() {
            let (half, most, last) = (part(500), part(990), part(1000));
            say(&format_args!("  {kind} was seen after {half} ms (half), {most} ms (99 %), {last} ms (all)"));
        }
    }
    views.wrong.iter().take(10).chain(&tally.told).for_each(say);
    if plan.json {
        let mut line = json!({
            "seen": views.seen, "late": views.wrong.len(), "kills": tally.get("client_kills"),
            "last_join_ms": views.joins.last(), "last_kill_ms": views.kills.last(),
        });
        ROWS.iter().for_each(|(key, _)| line[key] = tally.get(key).into());
        say(&line);
    }
}

/// Times at which something began or ended to be so, from "not so" on.
type Steps = Vec<(u64, bool)>;

/// A process, and what it noted.
struct View {
    name: String,
    from: u64,
    to: u64,
    /// By name: when it took a node for a member.
    members: BTreeMap<String, Steps>,
}

/// What all processes noted, and when the nodes of each name were there.
struct Views {
    views: Vec<View>,
    present: BTreeMap<String, Steps>,
}

#[derive(Debug, Default)]
struct Outcome {
    seen: usize,
    /// In milliseconds, in order.
    joins: Vec<u64>,
    kills: Vec<u64>,
    wrong: Vec<String>,
}

fn parse(line: &str) -> Option<(u64, String, bool)> {
    let mut words = line.split(' ');
    Some((words.next()?.parse().ok()?, words.next()?.to_owned(), words.next()? == "1"))
}

fn read(book: &Path) -> io::Result<Vec<(u64, String, bool)>> {
    match fs::read_to_string(book.with_extension("members")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(vec![]),
        text => Ok(text?.lines().filter_map(parse).collect()),
    }
}

impl Views {
    fn read(lives: &[Life], end: u64) -> io::Result<Views> {
        let mut all = Views { views: vec![], present: BTreeMap::new() };
        for life in lives {
            let to = if let End::Killed(at) = life.end { at } else { end };
            // One that was killed before it was open was never there.
            let mut lines = read(&life.book)?.into_iter();
            let Some((from, name, _)) = lines.next() else { continue };
            let mut members = BTreeMap::<String, Steps>::new();
            for (at, name, is_member) in lines.filter(|(at, ..)| *at <= to) {
                members.entry(name).or_default().push((at, is_member));
            }
            all.present.entry(name.clone()).or_default().extend([(from, true), (to, false)]);
            all.views.push(View { name, from, to, members });
        }
        Ok(all)
    }

    fn check(&self, within: u64) -> Outcome {
        let mut outcome = Outcome::default();
        for view in &self.views {
            for (name, present) in self.present.iter().filter(|(name, _)| **name != view.name) {
                let nothing = vec![];
                let seen = view.members.get(name).unwrap_or(&nothing);
                for (at, &(begin, is_there)) in present.iter().enumerate() {
                    let end = present.get(at + 1).map_or(view.to, |&(next, _)| next.min(view.to));
                    let first = begin.max(view.from);
                    // A node that was gone before this one began was never seen, which is not news.
                    let is_news = is_there || first == begin;
                    if let Some(delay) = delay(seen, is_there, first, end, within).filter(|&delay| is_news || delay > 0)
                    {
                        outcome.note(view, name, is_there, first, delay, within);
                    }
                }
            }
        }
        outcome.joins.sort_unstable();
        outcome.kills.sort_unstable();
        outcome
    }
}

/// How long after `begin` the view was wrong for the last time before `end`. `None` if the time was too short to be right.
fn delay(seen: &Steps, is_there: bool, begin: u64, end: u64, within: u64) -> Option<u64> {
    if end < begin + within {
        return None;
    }
    let (mut state, mut from, mut last_wrong) = (false, 0, None);
    let mut steps = seen.iter().peekable();
    loop {
        let to = steps.peek().map_or(end, |&&(at, _)| at.min(end));
        if state != is_there && to > begin && from < end {
            last_wrong = Some(to);
        }
        match steps.next() {
            Some(&(at, next)) if at < end => (from, state) = (at, next),
            _ => break,
        }
    }
    Some(last_wrong.map_or(0, |at| at - begin))
}

impl Outcome {
    fn note(&mut self, view: &View, name: &str, is_there: bool, begin: u64, delay: u64, within: u64) {
        self.seen += 1;
        if is_there { &mut self.joins } else { &mut self.kills }.push(delay);
        if delay > within {
            let (by, what) = (&view.name, if is_there { "there" } else { "killed" });
            let age = begin - view.from;
            self.wrong.push(format!("{name} was {what}; {by}, open for {age} ms then, saw it after {delay} ms"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_ends_when_the_view_is_right_for_good() {
        let view = vec![(120, true), (300, false), (350, true)];
        assert_eq!(delay(&view, true, 100, 1000, 500), Some(250));
        assert_eq!(delay(&view, true, 100, 300, 100), Some(20));
        assert_eq!(delay(&view, false, 400, 1000, 500), Some(600), "never right");
        assert_eq!(delay(&vec![], true, 100, 1000, 500), Some(900));
        assert_eq!(delay(&vec![], false, 100, 1000, 500), Some(0));
        assert_eq!(delay(&view, true, 400, 500, 200), None);
    }
}
