//! The log, in memory, and the state machine, which counts what it applies, and has the keys that were set.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::Cursor;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::storage::{LogFlushed, LogState, RaftLogStorage, RaftStateMachine, Snapshot};
use openraft::{
    BasicNode, Entry, EntryPayload, LogId, OptionalSend, RaftLogReader, RaftSnapshotBuilder, SnapshotMeta,
    StorageError, StoredMembership, Vote,
};
use serde_bytes::ByteBuf;
use tokio::sync::Notify;

use super::{Cluster, Written};
use crate::member::Shared;

type Stored<T> = Result<T, StorageError<u64>>;

#[derive(Debug, Default)]
struct Kept {
    vote: Option<Vote<u64>>,
    purged: Option<LogId<u64>>,
    entries: BTreeMap<u64, Entry<Cluster>>,
}

/// The log. Its readers share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Log(Arc<Mutex<Kept>>);

impl Log {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RaftLogReader<Cluster> for Log {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Stored<Vec<Entry<Cluster>>> {
        Ok(self.lock().entries.range(range).map(|(_, entry)| entry.clone()).collect())
    }
}

impl RaftLogStorage<Cluster> for Log {
    type LogReader = Log;

    async fn get_log_state(&mut self) -> Stored<LogState<Cluster>> {
        let kept = self.lock();
        let last = kept.entries.last_key_value().map(|(_, entry)| entry.log_id);
        Ok(LogState { last_purged_log_id: kept.purged, last_log_id: last.or(kept.purged) })
    }

    async fn get_log_reader(&mut self) -> Log {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Stored<()> {
        self.lock().vote = Some(*vote);
        Ok(())
    }

    async fn read_vote(&mut self) -> Stored<Option<Vote<u64>>> {
        Ok(self.lock().vote)
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<Cluster>) -> Stored<()>
    where
        I: IntoIterator<Item = Entry<Cluster>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.lock().entries.extend(entries.into_iter().map(|entry| (entry.log_id.index, entry)));
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, from: LogId<u64>) -> Stored<()> {
        self.lock().entries.split_off(&from.index);
        Ok(())
    }

    async fn purge(&mut self, to: LogId<u64>) -> Stored<()> {
        let mut kept = self.lock();
        kept.entries = kept.entries.split_off(&(to.index + 1));
        kept.purged = Some(to);
        Ok(())
    }
}

/// What was applied. A snapshot has nothing else: none is ever made.
#[derive(Clone, Debug, Default)]
struct Applied {
    last: Option<LogId<u64>>,
    membership: StoredMembership<u64, BasicNode>,
}

impl Applied {
    fn snapshot(&self) -> Snapshot<Cluster> {
        let meta = SnapshotMeta {
            last_log_id: self.last,
            last_membership: self.membership.clone(),
            snapshot_id: self.last.map_or(String::new(), |last| last.to_string()),
        };
        Snapshot { meta, snapshot: Box::new(Cursor::new(vec![])) }
    }
}

pub(super) struct Machine {
    index: u64,
    seen: Shared,
    delivered: Arc<Notify>,
    applied: Applied,
    keys: BTreeMap<String, ByteBuf>,
}

impl Machine {
    pub(super) fn new(index: u64, seen: Shared, delivered: Arc<Notify>) -> Machine {
        Machine { index, seen, delivered, applied: Applied::default(), keys: BTreeMap::new() }
    }

    fn write(&mut self, written: Written) -> Option<ByteBuf> {
        let is_own = written.from == self.index;
        let Some(key) = written.key else {
            self.seen.lock().delivered(is_own, &written.bytes);
            return None;
        };
        // Its sender has it when the leader answers.
        if !is_own {
            self.seen.lock().delivered(false, &written.bytes);
        }
        self.keys.insert(key, written.bytes)
    }
}

pub(super) struct Builder(Applied);

impl RaftSnapshotBuilder<Cluster> for Builder {
    async fn build_snapshot(&mut self) -> Stored<Snapshot<Cluster>> {
        Ok(self.0.snapshot())
    }
}

impl RaftStateMachine<Cluster> for Machine {
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Stored<(Option<LogId<u64>>, StoredMembership<u64, BasicNode>)> {
        Ok((self.applied.last, self.applied.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Stored<Vec<Option<ByteBuf>>>
    where
        I: IntoIterator<Item = Entry<Cluster>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut results = vec![];
        for Entry { log_id, payload } in entries {
            self.applied.last = Some(log_id);
            results.push(match payload {
                EntryPayload::Blank => None,
                EntryPayload::Normal(written) => self.write(written),
                EntryPayload::Membership(members) => {
                    self.applied.membership = StoredMembership::new(Some(log_id), members);
                    None
                }
            });
        }
        self.delivered.notify_one();
        Ok(results)
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder(self.applied.clone())
    }

    async fn begin_receiving_snapshot(&mut self) -> Stored<Box<Cursor<Vec<u8>>>> {
        Ok(Box::new(Cursor::new(vec![])))
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta<u64, BasicNode>, _: Box<Cursor<Vec<u8>>>) -> Stored<()> {
        self.applied = Applied { last: meta.last_log_id, membership: meta.last_membership.clone() };
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Stored<Option<Snapshot<Cluster>>> {
        Ok(self.applied.last.is_some().then(|| self.applied.snapshot()))
    }
}
