//! The conditions of a run.

use super::{Place, usable_cores};
use crate::cores::Cores;
use crate::topology::Topology;

/// Where and how often everything was measured.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// How many turns each row has taken.
    pub rounds: usize,
    /// Of our messages.
    pub transport: String,
    /// Those of two members.
    pub cores: Cores,
    /// The cores that all members share.
    pub usable: usize,
}

impl Conditions {
    /// Of this number of rounds there.
    pub fn of(topology: &Topology, place: &Place, rounds: usize) -> Conditions {
        let transport = topology.transport().to_owned();
        Conditions { rounds, transport, cores: place.cores, usable: usable_cores() }
    }
}
