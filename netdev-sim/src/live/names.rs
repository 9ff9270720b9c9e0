//! Networks by their seed.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use am_ring::LayoutError;
use am_transport::memory::NoMemory;
use nix::errno::Errno;

use super::network::Network;
use super::settings::{MOST_NODES, Settings};

/// Why a simulated network could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Who came first decided otherwise.
    #[error(
        "the network `sim:{seed}` is there already and has {setting}={has}, not {asked}: leave the setting out, or take another seed"
    )]
    Conflict {
        /// Which network.
        seed: u64,
        /// Which setting.
        setting: &'static str,
        /// What the network has.
        has: String,
        /// What was asked for.
        asked: String,
    },
    /// No place left.
    #[error(
        "{nodes} nodes are on `sim:{seed}`, which is all it can have: who comes first may say `nodes=`, up to {MOST_NODES}"
    )]
    Full {
        /// Which network.
        seed: u64,
        /// How many it can have.
        nodes: usize,
    },
    /// No memory for the pool.
    #[error(transparent)]
    Memory(#[from] NoMemory),
    /// The pool.
    #[error(transparent)]
    Pool(#[from] LayoutError),
    /// No descriptors, or the like.
    #[error("what wakes a node that sleeps could not be made: {0}; `ulimit -n` says how many files may be open")]
    System(#[from] Errno),
}

/// All that somebody is on.
static NETWORKS: Mutex<BTreeMap<u64, Weak<Network>>> = Mutex::new(BTreeMap::new());

/// A node's place on its network; who drops it leaves.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) network: Arc<Network>,
    pub(super) node: usize,
    pub(super) wake: Arc<OwnedFd>,
}

impl Seat {
    /// On the network of this seed, which is made where nobody is on it.
    pub(super) fn take(settings: &Settings) -> Result<Seat, OpenError> {
        let mut networks = NETWORKS.lock().unwrap_or_else(PoisonError::into_inner);
        networks.retain(|_, network| network.strong_count() > 0);
        let seed = settings.seed;
        let there = networks.get(&seed).and_then(Weak::upgrade);
        let network = match there {
            Some(network) => network,
            None => Arc::new(Network::new(settings.completed())?),
        };
        if let Some((setting, has, asked)) = settings.conflict(network.settings()) {
            return Err(OpenError::Conflict { seed, setting, has, asked });
        }
        let nodes = network.settings().options().nodes;
        let (node, wake) = network.join()?.ok_or(OpenError::Full { seed, nodes })?;
        networks.insert(seed, Arc::downgrade(&network));
        Ok(Seat { network, node, wake })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.network.leave(self.node);
    }
}
