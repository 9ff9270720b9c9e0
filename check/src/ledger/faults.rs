//! What happens to the players, at random.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rand::Rng;
use rand::rngs::SmallRng;

use super::book::now;
use super::judge::Tally;
use super::players::{Players, Silence};
use crate::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Kill,
    Leave,
    Stop,
    Link,
}

/// How their counts are called, behind `server_`, `client_` or `daemon_`.
const NAMES: [&str; 4] = ["kills", "leaves", "stops", "flaps"];

pub(crate) struct Faults {
    random: SmallRng,
    /// Between two faults, at most.
    pause: Duration,
    /// The longest silence.
    silence: Duration,
    next: Instant,
    /// The faults to end: when, of which player, which, and when it began.
    undo: Vec<(Instant, usize, Fault, u64)>,
    /// Daemons that were started again and do not serve yet, and since when they were away.
    returning: Vec<(usize, u64)>,
    pub(crate) done: Tally,
}

/// A daemon that does not serve after this time is at fault.
const SERVES: Duration = Duration::from_secs(15);

impl Faults {
    pub(crate) fn new(random: SmallRng, pause: Duration, silence: Duration) -> Faults {
        let (next, undo, returning) = (Instant::now() + pause, vec![], vec![]);
        Faults { random, pause, silence, next, undo, returning, done: Tally::default() }
    }

    /// How often each was done: kills, leaves, stops, link flaps.
    pub(crate) fn counts(&self) -> [u64; 4] {
        NAMES.map(|name| ["server", "client", "daemon"].iter().map(|who| self.done.get(&format!("{who}_{name}"))).sum())
    }

    /// Do what it is time for. Faults end in any case; new ones begin only if `may_strike`.
    pub(crate) fn turn(&mut self, players: &mut Players, may_strike: bool) -> Result<(), Error> {
        let time = Instant::now();
        self.undo(players, Some(time))?;
        self.note_returned(players);
        if may_strike && time >= self.next {
            self.next = time + self.within(self.pause);
            // The server as often as all others together.
            let mut player =
                if self.random.random_bool(0.5) { 0 } else { self.random.random_range(1..players.count()) };
            if !players.daemons().is_empty() && self.random.random_bool(0.3) {
                player = self.random.random_range(players.daemons());
            }
            if players.is_running(player) && !self.undo.iter().any(|(_, other, ..)| *other == player) {
                self.strike(players, player)?;
            }
        }
        Ok(())
    }

    /// Everybody runs and is heard again.
    pub(crate) fn calm(&mut self, players: &mut Players) -> Result<(), Error> {
        self.undo(players, None)?;
        let begin = Instant::now();
        while !self.returning.is_empty() {
            players.check()?;
            if begin.elapsed() > SERVES {
                return Err("a daemon that was started again does not serve".into());
            }
            std::thread::sleep(Duration::from_millis(1));
            self.note_returned(players);
        }
        Ok(())
    }

    /// While a daemon is away nothing passes between the server and a client. It is away until it serves: a slow machine may take seconds for
    /// its start.
    fn note_returned(&mut self, players: &mut Players) {
        let returned = self.returning.extract_if(.., |(daemon, _)| players.serves(*daemon));
        let silences: Vec<_> = returned.map(|(_, from)| Silence { player: 0, from, to: now() }).collect();
        players.silences.extend(silences);
    }

    fn within(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.random.random_range(0.1..1.0))
    }

    fn strike(&mut self, players: &mut Players, player: usize) -> Result<(), Error> {
        let faults = [Fault::Kill, Fault::Kill, Fault::Leave, Fault::Leave, Fault::Stop, Fault::Link];
        let fault = faults[self.random.random_range(0..faults.len() - usize::from(!players.has_link(player)))];
        let (away, silent) = (self.within(Duration::from_millis(300)), self.within(self.silence));
        let who = match player {
            0 => "server",
            player if players.daemons().contains(&player) => "daemon",
            _ => "client",
        };
        self.done.add(&format!("{who}_{}", NAMES[fault as usize]), 1);
        let since = now();
        match fault {
            Fault::Kill => players.kill(player),
            Fault::Leave => players.leave(&[player])?,
            Fault::Stop => players.signal(player, Signal::SIGSTOP)?,
            Fault::Link => players.set_link(player, false)?,
        }
        let after = if matches!(fault, Fault::Kill | Fault::Leave) { away } else { silent };
        self.undo.push((Instant::now() + after, player, fault, since));
        Ok(())
    }

    /// What is over by then, or all.
    fn undo(&mut self, players: &mut Players, by: Option<Instant>) -> Result<(), Error> {
        for (_, player, fault, from) in self.undo.extract_if(.., |(when, ..)| by.is_none_or(|by| *when <= by)) {
            match fault {
                Fault::Kill | Fault::Leave => players.start(player)?,
                Fault::Stop => players.signal(player, Signal::SIGCONT)?,
                Fault::Link => players.set_link(player, true)?,
            }
            let is_daemon = players.daemons().contains(&player);
            if matches!(fault, Fault::Stop | Fault::Link) {
                players.silences.push(Silence { player: if is_daemon { 0 } else { player }, from, to: now() });
            } else if is_daemon {
                self.returning.push((player, from));
            }
        }
        Ok(())
    }
}
