//! All flows of a node, by the flow id that it gave them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use am_wire::control::{Incarnation, Name, NodeId};
use am_wire::frame::ParsedFrame;
use am_wire::{Flow, Reason};

use crate::FlowId;
use crate::flow::{FlowRecord, Phase};
use crate::output::ReturnReason;

/// The table of flows. A freed id is reused as late as possible, so that a late frame rarely meets another flow.
#[derive(Debug)]
pub(crate) struct Flows {
    records: Vec<Option<Box<FlowRecord>>>,
    free_ids: VecDeque<u16>,
    /// Set-up numbers, each with the flow that resulted. For set-ups of this node it also lists ended flows, for a
    /// while.
    attempts: BTreeSet<(u32, u16)>,
    /// By id the last flow that a peer had set up and that ended otherwise than by a close of this side, and why.
    ended: BTreeMap<u16, (FlowId, ReturnReason)>,
    /// Flows in set-up, and some whose set-up is finished.
    in_setup: Vec<Flow>,
    count: usize,
    /// Where a walk over the flows starts. Ids are given out from here on.
    pub(crate) cursor: u16,
}

impl Flows {
    /// `start` is the first id to give out. It differs from run to run.
    pub(crate) fn new(start: u64) -> Self {
        let count = Flow::COUNT as u64 - 1;
        let nth = |n| ((start % count + n) % count) as u16 + 1;
        let mut records = Vec::new();
        records.resize_with(Flow::COUNT, || None);
        let unused = (0..count).map(nth).collect();
        let (attempts, ended, in_setup) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
        Flows { records, free_ids: unused, attempts, ended, in_setup, count: 0, cursor: nth(0) }
    }

    /// A free id for a new flow.
    pub(crate) fn reserve(&mut self) -> Option<Flow> {
        Flow::new(self.free_ids.pop_front()?)
    }

    pub(crate) fn insert(&mut self, record: FlowRecord) {
        let flow = record.id.flow;
        if self.attempts.len() >= 2 * Flow::COUNT {
            let records = &self.records;
            let is_there =
                |attempt: u32, flow: u16| records[flow as usize].as_ref().is_some_and(|it| it.setup.id == attempt);
            self.attempts.retain(|&(attempt, flow)| is_there(attempt, flow));
        }
        self.attempts.insert((record.setup.id, flow.id()));
        self.records[flow.index()] = Some(Box::new(record));
        self.count += 1;
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn remove(&mut self, flow: Flow) {
        if let Some(record) = self.records[flow.index()].take() {
            if !record.setup.is_ours {
                self.attempts.remove(&(record.setup.id, flow.id()));
            }
            self.free_ids.push_back(flow.id());
            self.count -= 1;
        }
    }

    /// Remove a flow that has ended. Why is known until this side closes it, or another flow with its id ends.
    pub(crate) fn remove_ended(&mut self, id: FlowId, reason: ReturnReason) {
        self.remove(id.flow);
        self.ended.insert(id.flow.id(), (id, reason));
    }

    /// Why this flow ended, after [`Flows::remove_ended`].
    #[cold]
    pub(crate) fn why_ended(&self, id: FlowId) -> Option<ReturnReason> {
        self.ended.get(&id.flow.id()).filter(|(ended, _)| *ended == id).map(|(_, reason)| *reason)
    }

    /// This side closes a flow that may have ended.
    pub(crate) fn forget_ended(&mut self, id: FlowId) {
        if self.why_ended(id).is_some() {
            self.ended.remove(&id.flow.id());
        }
    }

    /// The flow ids that resulted from a set-up with this number. The flows may have ended.
    pub(crate) fn by_attempt(&self, attempt: u32) -> impl Iterator<Item = Flow> {
        self.attempts.range((attempt, 0)..=(attempt, u16::MAX)).filter_map(|&(_, flow)| Flow::new(flow))
    }

    /// The flow that resulted from this attempt. `run` is the node that asked, `None` for this node.
    pub(crate) fn find_attempt(&self, run: Option<(NodeId, Incarnation)>, attempt: u32) -> Option<FlowId> {
        let record = |flow: Flow| self.records[flow.index()].as_deref();
        let is_it = |record: &&FlowRecord| {
            record.setup.id == attempt && if record.setup.is_ours { run.is_none() } else { record.peer.node == run }
        };
        self.by_attempt(attempt).filter_map(record).find(is_it).map(|record| record.id)
    }

    pub(crate) fn begin_setup(&mut self, flow: Flow) {
        if self.in_setup.len() == self.in_setup.capacity() {
            self.forget_finished_setups();
        }
        self.in_setup.push(flow);
    }

    pub(crate) fn in_setup_with(&mut self, node: Name) -> Vec<Flow> {
        self.forget_finished_setups();
        let asks = |flow: &&Flow| self.records[flow.index()].as_ref().is_some_and(|it| it.peer.node_name == node);
        self.in_setup.iter().filter(asks).copied().collect()
    }

    fn forget_finished_setups(&mut self) {
        let records = &self.records;
        let is_asking =
            |flow: &Flow| records[flow.index()].as_ref().is_some_and(|record| record.phase == Phase::Connecting);
        self.in_setup.retain(is_asking);
    }

    /// The flow by the id in a frame.
    #[inline]
    pub(crate) fn by_flow(&mut self, flow: Flow) -> Option<&mut FlowRecord> {
        self.records[flow.index()].as_deref_mut()
    }

    /// The open flow of a frame. Any frame shows that the peer is alive.
    #[inline(always)]
    pub(crate) fn open_flow_of(
        &mut self,
        frame: &ParsedFrame<'_>,
        dirty: &mut Vec<Flow>,
    ) -> Result<&mut FlowRecord, Reason> {
        let record = self.by_flow(frame.header.flow).ok_or(Reason::NoFlow)?;
        record.check(frame.framing, &frame.header)?;
        record.mark_dirty(dirty);
        Ok(record)
    }

    /// The flow by the id that the layer above holds, which may be an old one.
    #[inline]
    pub(crate) fn get(&self, id: FlowId) -> Option<&FlowRecord> {
        self.records[id.flow.index()].as_deref().filter(|record| record.id == id)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: FlowId) -> Option<&mut FlowRecord> {
        self.records[id.flow.index()].as_deref_mut().filter(|record| record.id == id)
    }

    /// All flows, starting where the last round ended.
    pub(crate) fn iter_from_cursor(&self) -> impl Iterator<Item = &FlowRecord> {
        let (before, after) = self.records.split_at(self.cursor as usize);
        after.iter().chain(before).flatten().take(self.count).map(|record| &**record)
    }

    /// The flows for which `which` holds.
    pub(crate) fn filter(&self, which: impl Fn(&FlowRecord) -> bool) -> Vec<FlowId> {
        self.iter().filter(|record| which(record)).map(|record| record.id).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &FlowRecord> {
        self.records.iter().flatten().map(|record| &**record)
    }
}
