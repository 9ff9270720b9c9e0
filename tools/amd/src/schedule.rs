//! The order in which ports are served: weighted round robin (Chun et al., "Endpoint scheduling").
//!
//! A turn visits each port once. A visit is a number of attempts to take a frame, proportional to the port's weight. The visit ends when
//! the attempts are used up, when the port is empty, and after a frame that is no message on a granted flow. So an empty port costs one
//! check. Each turn starts at the port after the one where the last turn started.

/// The attempts of a visit with weight 1: the paper's 2^k, with k = 5.
pub const ATTEMPTS: usize = 32;

/// The largest weight.
pub const MAX_WEIGHT: u32 = 64;

/// A visit of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) port: usize,
    pub(crate) attempts: usize,
}

/// The round-robin state.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// One visit for each port.
    visits: Vec<Visit>,
    /// The index of the next visit, and the number of visits left in this turn.
    next: usize,
    left: usize,
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule { visits: Vec::with_capacity(crate::address::MAX_PORTS), next: 0, left: 0 }
    }
}

impl Schedule {
    /// Add a port, or change its weight.
    pub(crate) fn set(&mut self, port: usize, weight: u32) {
        let attempts = ATTEMPTS * weight.clamp(1, MAX_WEIGHT) as usize;
        match self.visits.iter_mut().find(|visit| visit.port == port) {
            Some(visit) => visit.attempts = attempts,
            None => self.visits.push(Visit { port, attempts }),
        }
    }

    pub(crate) fn remove(&mut self, port: usize) {
        self.visits.retain(|visit| visit.port != port);
        self.next = 0;
    }

    /// The numbers of all ports.
    pub(crate) fn ports(&self) -> impl Iterator<Item = usize> {
        self.visits.iter().map(|visit| visit.port)
    }

    /// The number of the nth port.
    pub(crate) fn port(&self, nth: usize) -> Option<usize> {
        self.visits.get(nth).map(|visit| visit.port)
    }

    /// Begin a turn, one port after the start of the last turn.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.left = self.visits.len();
        self.go_on();
    }

    /// The next visit of this turn.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Visit> {
        self.left = self.left.checked_sub(1)?;
        let visit = *self.visits.get(self.next)?;
        self.go_on();
        Some(visit)
    }

    #[inline]
    fn go_on(&mut self) {
        self.next = if self.next + 1 < self.visits.len() { self.next + 1 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(schedule: &mut Schedule) -> Vec<(usize, usize)> {
        schedule.begin();
        std::iter::from_fn(|| schedule.next()).map(|visit| (visit.port, visit.attempts / ATTEMPTS)).collect()
    }

    #[test]
    fn each_turn_visits_all_and_starts_at_another() {
        let mut schedule = Schedule::default();
        assert_eq!(turn(&mut schedule), []);
        [(7, 1), (8, 3), (9, 1000), (8, 2)].into_iter().for_each(|(port, weight)| schedule.set(port, weight));
        let turns: Vec<_> = (0..3).map(|_| turn(&mut schedule)).collect();
        let firsts: Vec<_> = turns.iter().map(|visits| visits[0].0).collect();
        assert_eq!(firsts, [8, 9, 7]);
        assert_eq!(turns[2], [(7, 1), (8, 2), (9, MAX_WEIGHT as usize)]);
        schedule.remove(8);
        assert_eq!(turn(&mut schedule).len(), 2);
    }
}
