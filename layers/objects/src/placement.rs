//! Where an object is: a copy at each process, or one copy at one process; and what its use says about that.

use std::collections::BTreeMap;

use am_rpc::Wire;

/// Where a program wants an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub(crate) enum Wanted {
    Everywhere,
    /// At this process.
    At(u64),
    /// As its use says, which begins with a copy at each process.
    AsUsed,
}

/// Where an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
pub(crate) enum Home {
    Everywhere,
    At {
        process: u64,
        /// Which placement it is: no other one of the object has this number.
        epoch: u64,
    },
    /// It was at a process that is gone.
    Lost,
}

impl Home {
    pub(crate) fn is_at(self, process: u64) -> bool {
        matches!(self, Home::At { process: home, .. } if home == process)
    }

    /// Whether this process has its value.
    pub(crate) fn has_copy(self, process: u64) -> bool {
        self == Home::Everywhere || self.is_at(process)
    }
}

/// Operations of a process between two of its reports. Threads of a simulation call little.
pub(crate) const REPORT: u32 = if cfg!(test) { 8 } else { 1024 };
/// Reports before the first change of a placement; each change needs more than the one before, up to the second number.
const REPORTS: u32 = 4;
const MOST_REPORTS: u32 = 1 << 10;
/// A write of a replicated object takes two messages' time one after the other, an operation at another process one round trip.
const WRITE: u64 = 2;

/// The use of an object, as all processes know it at one place in the order: so they all come to the same verdict.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
pub(crate) struct Usage {
    /// Operations and writes of each process, of which older ones count less.
    counts: BTreeMap<u64, (u64, u64)>,
    /// Since the last verdict.
    reports: u32,
    /// Before the next verdict.
    needed: u32,
}

impl Default for Usage {
    fn default() -> Usage {
        Usage { counts: BTreeMap::new(), reports: 0, needed: REPORTS }
    }
}

impl Usage {
    /// A process's report. Returns where the object is to go, if it is elsewhere.
    pub(crate) fn report(&mut self, process: u64, reads: u32, writes: u32, home: Home) -> Option<Wanted> {
        let (operations, written) = self.counts.entry(process).or_default();
        *operations += u64::from(reads) + u64::from(writes);
        *written += u64::from(writes);
        self.reports += 1;
        if self.reports < self.needed {
            return None;
        }
        let elsewhere = |home: u64| -> u64 {
            self.counts.iter().filter(|(process, _)| **process != home).map(|(_, (operations, _))| operations).sum()
        };
        let everywhere = WRITE * self.counts.values().map(|(_, writes)| writes).sum::<u64>();
        let now = match home {
            Home::Everywhere => everywhere,
            Home::At { process, .. } => elsewhere(process),
            Home::Lost => return None,
        };
        // The process that reports is there. Another one may be gone.
        let (here, is_here) = (elsewhere(process), home.is_at(process));
        let (cost, wanted) =
            if here < everywhere && !is_here { (here, Wanted::At(process)) } else { (everywhere, Wanted::Everywhere) };
        // Twice as good, or it stays: what is nearly the same would go to and fro.
        let moves = cost < now / 2;
        self.needed = if moves { self.needed * 2 } else { self.needed / 2 }.clamp(REPORTS, MOST_REPORTS);
        self.reports = 0;
        self.counts
            .values_mut()
            .for_each(|(operations, writes)| (*operations, *writes) = (*operations / 2, *writes / 2));
        self.counts.retain(|_, (operations, _)| *operations > 0);
        moves.then_some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Home = Home::At { process: 1, epoch: 1 };

    fn reports(usage: &mut Usage, home: Home, all: &[(u64, u32, u32)]) -> Option<Wanted> {
        all.iter().find_map(|(process, reads, writes)| usage.report(*process, *reads, *writes, home))
    }

    #[test]
    fn one_that_writes_alone_gets_the_object_and_readers_get_copies() {
        let mut usage = Usage::default();
        let writes = [(1, 24, 1000); 4];
        assert_eq!(reports(&mut usage, Home::Everywhere, &writes), Some(Wanted::At(1)));
        let reads = [(1, 1000, 24), (2, 1024, 0), (3, 1024, 0), (2, 1024, 0)];
        let to = (0..9).find_map(|_| reports(&mut usage, A, &reads));
        assert_eq!(to, Some(Wanted::Everywhere));
    }

    #[test]
    fn it_stays_where_it_is_nearly_as_good() {
        let mut usage = Usage::default();
        // Two that write as much as they read, and one another: both placements cost about the same.
        let mixed = [(1, 512, 512), (2, 512, 512)];
        assert_eq!((0..100).find_map(|_| reports(&mut usage, Home::Everywhere, &mixed)), None);
        assert_eq!((0..100).find_map(|_| reports(&mut usage, A, &mixed)), None);
    }

    /// A use that changes as often as verdicts come changes the placement less and less often.
    #[test]
    fn it_does_not_swing() {
        let (mut usage, mut home, mut changes) = (Usage::default(), Home::Everywhere, 0);
        for turn in 0..4000 {
            let of_turn = if turn / 4 % 2 == 0 { (1, 0, 1024) } else { (2, 1024, 0) };
            if let Some(wanted) = usage.report(of_turn.0, of_turn.1, of_turn.2, home) {
                changes += 1;
                home = if wanted == Wanted::Everywhere { Home::Everywhere } else { A };
            }
        }
        assert!(changes < 20, "{changes} changes");
    }
}
