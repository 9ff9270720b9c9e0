//! The networks of this process, by their seed.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use am_ring::LayoutError;
use am_transport::memory::NoMemory;
use nix::errno::Errno;

use super::network::Network;
use super::settings::{MAX_NODES, SimSettings};

/// Why a simulated network could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum SimOpenError {
    /// The node that made the network chose another value.
    #[error(
        "the network `sim:{seed}` exists already and has {setting}={has}, not {asked}: leave the setting out, or use another seed"
    )]
    Conflict {
        /// The network's seed.
        seed: u64,
        /// The setting.
        setting: &'static str,
        /// The network's value.
        has: String,
        /// The requested value.
        asked: String,
    },
    /// The network has no room for another node.
    #[error(
        "the network `sim:{seed}` has {nodes} nodes, its maximum: set `nodes=` in the name that opens it first, up to {MAX_NODES}"
    )]
    Full {
        /// The network's seed.
        seed: u64,
        /// The maximum number of nodes.
        nodes: usize,
    },
    /// There is not enough memory for the pool.
    #[error(transparent)]
    Memory(#[from] NoMemory),
    /// The pool cannot be laid out.
    #[error(transparent)]
    Pool(#[from] LayoutError),
    /// A descriptor could not be made.
    #[error(
        "cannot make the descriptors that wake a sleeping node: {0}; raise the limit of open files with `ulimit -n`"
    )]
    System(#[from] Errno),
}

/// Every network that has a node.
static NETWORKS: Mutex<BTreeMap<u64, Weak<Network>>> = Mutex::new(BTreeMap::new());

/// A node's place on its network. The node leaves when it is dropped.
#[derive(Debug)]
pub(super) struct JoinedNode {
    pub(super) network: Arc<Network>,
    pub(super) node: usize,
    pub(super) wake: Arc<OwnedFd>,
}

impl JoinedNode {
    /// Join the network of this seed. The first node makes the network.
    pub(super) fn join(settings: &SimSettings) -> Result<JoinedNode, SimOpenError> {
        let mut networks = NETWORKS.lock().unwrap_or_else(PoisonError::into_inner);
        networks.retain(|_, network| network.strong_count() > 0);
        let seed = settings.seed;
        let there = networks.get(&seed).and_then(Weak::upgrade);
        let network = match there {
            Some(network) => network,
            None => Arc::new(Network::new(settings.with_defaults())?),
        };
        if let Some((setting, has, asked)) = settings.conflict(network.settings()) {
            return Err(SimOpenError::Conflict { seed, setting, has, asked });
        }
        let nodes = network.settings().options().nodes;
        let (node, wake) = network.join()?.ok_or(SimOpenError::Full { seed, nodes })?;
        networks.insert(seed, Arc::downgrade(&network));
        Ok(JoinedNode { network, node, wake })
    }
}

impl Drop for JoinedNode {
    fn drop(&mut self) {
        self.network.leave(self.node);
    }
}
