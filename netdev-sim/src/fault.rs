//! Random draws: whether a fault strikes.

use rand::Rng;
use rand::rngs::SmallRng;

use crate::clock::Nanos;
use crate::options::{NetOptions, Partition};

/// The random numbers of one part of a network. Faults strike until a given time.
#[derive(Clone, Debug)]
pub(crate) struct FaultRng {
    random: SmallRng,
    until: Nanos,
}

impl FaultRng {
    pub(crate) fn new(random: SmallRng, until: Nanos) -> FaultRng {
        FaultRng { random, until }
    }

    /// Whether faults strike at this time.
    pub(crate) fn is_active(&self, now: Nanos) -> bool {
        now < self.until
    }

    /// Whether a fault with this probability strikes now. A probability of 0 draws no number, so a run with few faults
    /// is fast.
    pub(crate) fn strikes(&mut self, now: Nanos, probability: f64) -> bool {
        probability > 0.0 && self.is_active(now) && self.random.random::<f64>() < probability
    }

    /// A number from 0 to `most`.
    pub(crate) fn draw_up_to(&mut self, most: u64) -> u64 {
        if most == 0 { 0 } else { self.random.random_range(0..=most) }
    }
}

impl Partition {
    /// Whether the partition stops frames from one node to the other.
    pub(crate) fn separates(&self, now: Nanos, from: usize, to: usize) -> bool {
        (self.from..self.until).contains(&now) && (self.side >> from ^ self.side >> to) & 1 == 1
    }
}

impl NetOptions {
    pub(crate) fn is_partitioned(&self, now: Nanos, from: usize, to: usize) -> bool {
        self.partitions.iter().any(|partition| partition.separates(now, from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn faults_end() {
        let mut dice = FaultRng::new(SmallRng::seed_from_u64(1), 100);
        assert!(dice.strikes(99, 1.0) && !dice.strikes(99, 0.0) && !dice.strikes(100, 1.0));
    }

    #[test]
    fn a_partition_has_two_sides() {
        let partition = Partition { from: 10, until: 20, side: 0b011 };
        assert!(partition.separates(10, 0, 2) && partition.separates(19, 2, 1));
        assert!(!partition.separates(10, 0, 1) && !partition.separates(20, 0, 2) && !partition.separates(9, 0, 2));
    }
}
