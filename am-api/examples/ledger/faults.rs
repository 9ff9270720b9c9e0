//! What happens to the players, at random.

use std::fmt;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rand::Rng;
use rand::rngs::SmallRng;

use crate::Error;
use crate::book::now;
use crate::players::{Players, Silence};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Kill,
    Leave,
    Stop,
    Link,
}

/// What is over later.
enum Undo {
    Start,
    Continue(u64),
    Up(u64),
}

/// How often each was done, to the server and to clients.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) kills: [u64; 2],
    pub(crate) leaves: [u64; 2],
    pub(crate) stops: [u64; 2],
    pub(crate) flaps: [u64; 2],
}

pub(crate) struct Faults {
    random: SmallRng,
    /// Between two faults, at most.
    pause: Duration,
    /// The longest silence.
    silence: Duration,
    next: Instant,
    undo: Vec<(Instant, usize, Undo)>,
    pub(crate) done: Done,
}

impl Done {
    pub(crate) fn all(&self) -> u64 {
        [self.kills, self.leaves, self.stops, self.flaps].as_flattened().iter().sum()
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: [u64; 2]| of[0] + of[1];
        let [kills, leaves, stops, flaps] = [self.kills, self.leaves, self.stops, self.flaps].map(sum);
        write!(f, "{kills} kills, {leaves} leaves, {stops} stops, {flaps} link flaps")
    }
}

impl Faults {
    pub(crate) fn new(random: SmallRng, pause: Duration, silence: Duration) -> Faults {
        Faults { random, pause, silence, next: Instant::now() + pause, undo: vec![], done: Done::default() }
    }

    /// Do what it is time for.
    pub(crate) fn turn(&mut self, players: &mut Players) -> Result<(), Error> {
        let time = Instant::now();
        let (due, later) = self.undo.drain(..).partition(|(when, ..)| *when <= time);
        self.undo = later;
        for (_, player, undo) in due {
            self.undo(players, player, undo)?;
        }
        if time >= self.next {
            self.next = time + self.within(self.pause);
            // The server as often as all others together.
            let player = if self.random.random_bool(0.5) { 0 } else { self.random.random_range(1..players.count()) };
            if players.is_running(player) && !self.is_busy(player) {
                self.strike(players, player)?;
            }
        }
        Ok(())
    }

    /// Everybody runs and is heard again.
    pub(crate) fn calm(&mut self, players: &mut Players) -> Result<(), Error> {
        for (_, player, undo) in std::mem::take(&mut self.undo) {
            self.undo(players, player, undo)?;
        }
        Ok(())
    }

    fn is_busy(&self, player: usize) -> bool {
        self.undo.iter().any(|(_, other, _)| *other == player)
    }

    fn within(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.random.random_range(0.1..1.0))
    }

    fn later(&mut self, player: usize, after: Duration, undo: Undo) {
        self.undo.push((Instant::now() + after, player, undo));
    }

    fn strike(&mut self, players: &mut Players, player: usize) -> Result<(), Error> {
        let faults: &[Fault] = if players.stage.has_links() {
            &[Fault::Kill, Fault::Kill, Fault::Leave, Fault::Leave, Fault::Stop, Fault::Link]
        } else {
            &[Fault::Kill, Fault::Kill, Fault::Leave, Fault::Leave, Fault::Stop]
        };
        let (fault, who) = (faults[self.random.random_range(0..faults.len())], usize::from(player > 0));
        let (away, silent) = (self.within(Duration::from_millis(300)), self.within(self.silence));
        match fault {
            Fault::Kill => {
                self.done.kills[who] += 1;
                players.kill(player)?;
                self.later(player, away, Undo::Start);
            }
            Fault::Leave => {
                self.done.leaves[who] += 1;
                players.leave(&[player])?;
                self.later(player, away, Undo::Start);
            }
            Fault::Stop => {
                self.done.stops[who] += 1;
                let since = now();
                players.signal(player, Signal::SIGSTOP)?;
                self.later(player, silent, Undo::Continue(since));
            }
            Fault::Link => {
                self.done.flaps[who] += 1;
                let since = now();
                players.stage.set_link(player, false)?;
                self.later(player, silent, Undo::Up(since));
            }
        }
        Ok(())
    }

    fn undo(&mut self, players: &mut Players, player: usize, undo: Undo) -> Result<(), Error> {
        let from = match undo {
            Undo::Start => return players.start(player),
            Undo::Continue(from) => {
                players.signal(player, Signal::SIGCONT)?;
                from
            }
            Undo::Up(from) => {
                players.stage.set_link(player, true)?;
                from
            }
        };
        players.silences.push(Silence { player, from, to: now() });
        Ok(())
    }
}
