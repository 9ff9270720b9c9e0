//! The waiting loops: when to read the clock, when to ask again, when to give up.

use std::hint::spin_loop;
use std::thread::yield_now;
use std::time::{Duration, Instant};

use crate::driver::Driver;
use crate::error::Error;
use crate::watch::Watch;

/// How long each side waits for the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// Until the other side has opened a driver. A NIC may take its link down for seconds when a program is attached.
    pub(crate) open: Duration,
    /// Until any message arrives, once it is open.
    pub(crate) silence: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts { open: Duration::from_secs(20), silence: Duration::from_secs(3) }
    }
}

/// How often a question is repeated until it is answered.
const ASK_INTERVAL: Duration = Duration::from_millis(2);
/// A spinning loop reads the clock and checks for reasons to stop once in this many turns.
const TURNS_PER_LOOK: u32 = 256;
/// After this time the other side may be waiting for this very core.
const MAX_SPIN: Duration = Duration::from_micros(200);

/// The state of a loop that spins until something happens. A turn is cheap; now and then one reads the clock and checks
/// for reasons to stop.
#[derive(Debug)]
pub struct SpinWait<'a> {
    watch: &'a Watch,
    driver: Driver,
    doing: &'static str,
    limit: Duration,
    last_arrival: Instant,
    /// Whether a message arrived since the clock was last read.
    arrived_since: bool,
    asked: Option<Instant>,
    turns: u32,
}

impl<'a> SpinWait<'a> {
    /// Wait for `doing`, for `limit` at most.
    pub fn new(watch: &'a Watch, driver: Driver, doing: &'static str, limit: Duration) -> Self {
        SpinWait::from(watch, driver, doing, limit, Instant::now())
    }

    pub(crate) fn from(watch: &'a Watch, driver: Driver, doing: &'static str, limit: Duration, now: Instant) -> Self {
        SpinWait { watch, driver, doing, limit, last_arrival: now, arrived_since: false, asked: None, turns: 0 }
    }

    /// A turn in which a message arrived.
    #[inline]
    pub fn active(&mut self) -> Result<(), Error> {
        self.arrived_since = true;
        self.turn().map(drop)
    }

    /// A turn in which nothing arrived.
    #[inline]
    pub fn idle(&mut self) -> Result<Option<Instant>, Error> {
        spin_loop();
        self.turn()
    }

    /// One turn of the loop. Most cost nothing; now and then one returns the time.
    ///
    /// # Errors
    /// [`Error::Silent`], or a reason to stop.
    #[inline]
    pub(crate) fn turn(&mut self) -> Result<Option<Instant>, Error> {
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(TURNS_PER_LOOK) { self.look().map(Some) } else { Ok(None) }
    }

    /// Read the clock, and check for reasons to stop.
    fn look(&mut self) -> Result<Instant, Error> {
        self.watch.check()?;
        let now = Instant::now();
        if std::mem::take(&mut self.arrived_since) {
            self.last_arrival = now;
        }
        let silence = now - self.last_arrival;
        if silence > MAX_SPIN {
            yield_now();
        }
        if silence > self.limit {
            return Err(Error::Silent { doing: self.doing, driver: self.driver.name(), silence });
        }
        Ok(now)
    }

    /// Whether to ask, at once or again.
    pub(crate) fn ask(&mut self) -> Result<bool, Error> {
        let due = match self.asked {
            None => Some(self.look()?),
            Some(asked) => self.idle()?.filter(|now| *now - asked >= ASK_INTERVAL),
        };
        self.asked = due.or(self.asked);
        Ok(due.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_at_once_and_again_and_gives_up() {
        let watch = Watch::default();
        let mut wait = SpinWait::new(&watch, Driver::Udp, "waiting", 50 * ASK_INTERVAL);
        let mut asked = 0;
        let error = loop {
            match wait.ask() {
                Ok(due) => asked += due as usize,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Silent { driver: "udp", .. }), "{error}");
        assert!((2..=51).contains(&asked), "asked {asked} times");
    }
    #[test]
    fn stops_when_told() {
        let watch = Watch::default();
        watch.peer_is_gone();
        let mut wait = SpinWait::new(&watch, Driver::Udp, "waiting", Duration::MAX);
        let error = (0..=TURNS_PER_LOOK).find_map(|_| wait.idle().err());
        assert!(matches!(error, Some(Error::PeerGone(_))));
    }
}
