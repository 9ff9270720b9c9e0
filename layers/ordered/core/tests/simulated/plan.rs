//! What happens in a run: its network, its members, its faults. All of it follows from the seed.

use std::time::Duration;

use am_ordered_core::Time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// Members at the beginning.
    pub(crate) members: usize,
    /// Half of the members may be a majority: the founder breaks the tie.
    pub(crate) tie_break: bool,
    pub(crate) capacity: usize,
    /// Messages arrive in the order in which they were sent, once, unless a link is cut.
    pub(crate) is_reliable: bool,
    pub(crate) loss: f64,
    pub(crate) doubled: f64,
    /// The part of the repairs that are lost besides.
    pub(crate) repair_loss: f64,
    /// The longest time that a message takes.
    pub(crate) delay: Time,
    /// The network stamps.
    pub(crate) stamps: bool,
    /// Members ask how far the others are.
    pub(crate) reads: bool,
    /// States travel in parts.
    pub(crate) parts: bool,
    /// The mean time between two messages of a member, and the part of them that is `Safe`.
    pub(crate) pause: Time,
    pub(crate) safe: f64,
    /// Messages of a member.
    pub(crate) messages: u64,
    /// The mean time between two faults; none after the end.
    pub(crate) fault_pause: Time,
    pub(crate) faults_end: Time,
    /// The time in which everything has to be delivered after the last fault.
    pub(crate) quiet: Time,
}

impl Plan {
    pub(crate) fn from_seed(seed: u64) -> Plan {
        let mut rng = SmallRng::seed_from_u64(seed);
        let is_reliable = rng.random_bool(0.4);
        let is_lossy = !is_reliable && rng.random_bool(0.6);
        Plan {
            seed,
            members: rng.random_range(1..=7),
            tie_break: rng.random_bool(0.3),
            capacity: *pick(&mut rng, &[16, 32, 256]),
            is_reliable,
            loss: if is_lossy { rng.random_range(0.0..0.3) } else { 0.0 },
            doubled: if is_reliable { 0.0 } else { *pick(&mut rng, &[0.0, 0.1]) },
            delay: Duration::from_micros(*pick(&mut rng, &[30, 200, 2000])),
            pause: Duration::from_micros(*pick(&mut rng, &[2000, 10_000, 50_000])),
            safe: *pick(&mut rng, &[0.0, 0.2, 0.5, 1.0]),
            messages: 100,
            fault_pause: Duration::from_millis(*pick(&mut rng, &[50, 200, 600])),
            faults_end: Duration::from_millis(2500),
            quiet: Duration::from_secs(12),
            stamps: rng.random_bool(0.5),
            reads: seed % 4 == 3,
            parts: seed % 3 == 1,
            repair_loss: if is_reliable { 0.0 } else { *pick(&mut rng, &[0.0, 0.5]) },
        }
    }
}

pub(crate) fn pick<'a, T>(rng: &mut SmallRng, all: &'a [T]) -> &'a T {
    &all[rng.random_range(0..all.len())]
}
