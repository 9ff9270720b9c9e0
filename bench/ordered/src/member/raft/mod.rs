//! A member of a cluster of openraft, as its examples have one: the log in memory, calls over TCP, tokio on one thread that sleeps while
//! it is idle. The first member leads, and the others send it what they want to write. A message is delivered when the member's
//! state machine applies it. As a store, the members set a key by a call of the leader, which answers when it has applied the write.

mod net;
mod store;

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use am_measure::Error;
use am_measure::drivers::facility;
use openraft::{BasicNode, Config, Raft, SnapshotPolicy};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::{Member, Shared};
use crate::protocol::Opening;
use crate::work::Stack;
use net::Network;
use store::{Log, Machine};

/// What is written, and the member that has sent it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Written {
    from: u64,
    /// Of a store.
    key: Option<String>,
    bytes: ByteBuf,
}

/// The key that is set.
const KEY: &str = "subject";

openraft::declare_raft_types!(
    /// Our cluster. A write returns the value before.
    pub(super) Cluster: D = Written, R = Option<ByteBuf>
);

/// Where nodes listen.
const PORT: u16 = 0x88b9;
/// The leader's silence after which another one is elected: long, because members that share few cores are late.
const ELECTION: (u64, u64) = (3000, 6000);
const HEARTBEAT: u64 = 500;

pub(super) struct Node {
    runtime: Runtime,
    raft: Raft<Cluster>,
    /// To the leader.
    writes: UnboundedSender<Written>,
    delivered: Arc<Notify>,
    index: u64,
    members: usize,
    is_store: bool,
}

impl Node {
    pub(super) fn open(opening: &Opening, seen: Shared) -> Result<Node, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Error::system("starting a runtime of tokio"))?;
        let (delivered, index) = (Arc::new(Notify::new()), opening.seat.index as u64);
        let all: BTreeMap<u64, BasicNode> = (0..)
            .zip(&opening.addresses)
            .map(|(index, address)| (index, BasicNode::new(format!("{address}:{PORT}"))))
            .collect();
        let config = Config {
            heartbeat_interval: HEARTBEAT,
            election_timeout_min: ELECTION.0,
            election_timeout_max: ELECTION.1,
            snapshot_policy: SnapshotPolicy::Never,
            ..Config::default()
        };
        let config = Arc::new(config.validate().map_err(facility)?);
        let machine = Machine::new(index, seen.clone(), Arc::clone(&delivered));
        let answered = {
            let delivered = Arc::clone(&delivered);
            move |bytes: &[u8]| {
                seen.lock().delivered(true, bytes);
                delivered.notify_one();
            }
        };
        let (writes, to_write) = unbounded_channel();
        let raft = runtime.block_on(async {
            let raft = Raft::new(index, config, Network, Log::default(), machine).await.map_err(facility)?;
            net::serve(&all[&index].addr, raft.clone()).await.map_err(Error::system("listening on TCP"))?;
            tokio::spawn(net::write(all[&0].addr.clone(), to_write, answered));
            if index == 0 {
                raft.initialize(all).await.map_err(facility)?;
            }
            Ok::<_, Error>(raft)
        })?;
        let (members, is_store) = (opening.seat.members, opening.stack == Stack::Store);
        Ok(Node { runtime, raft, writes, delivered, index, members, is_store })
    }
}

impl Member for Node {
    fn send(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        let key = self.is_store.then(|| KEY.to_owned());
        let written = Written { from: self.index, key, bytes: ByteBuf::from(bytes) };
        self.writes.send(written).map_err(|_| Error::Lost("the connection with the leader has ended".to_owned()))?;
        Ok(true)
    }

    fn turn(&mut self, longest: Duration) -> Result<(), Error> {
        // Its tasks run meanwhile. Nothing delivered is no error.
        _ = self.runtime.block_on(async { timeout(longest, self.delivered.notified()).await });
        let state = self.raft.metrics().borrow().running_state.clone();
        state.map_err(|why| Error::Lost(why.to_string()))
    }

    fn is_whole(&self) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let voters = metrics.membership_config.voter_ids().count();
        metrics.current_leader == Some(0) && voters == self.members && metrics.last_applied.is_some()
    }
}
