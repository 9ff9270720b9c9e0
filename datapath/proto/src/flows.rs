//! All flows of a node, by the flow id that it gave them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Deref;
use std::time::Duration;

use am_wire::control::{Incarnation, Name, NodeId};
use am_wire::frame::ParsedFrame;
use am_wire::{Flow, Reason};

use crate::FlowId;
use crate::flow::FlowRecord;
use crate::gaps::Gaps;
use crate::idle_flows::IdleFlows;
use crate::output::ReturnReason;
use crate::peers::PeerRun;
use crate::time::Time;

/// The table of flows. A freed id is reused as late as possible, so that a late frame rarely meets another flow.
#[derive(Debug)]
pub(crate) struct Flows {
    /// The active flows.
    records: Box<[Option<Box<FlowRecord>>; Flow::COUNT]>,
    pub(crate) idle: IdleFlows,
    free_ids: VecDeque<u16>,
    /// Set-up numbers, each with the flow that resulted. For set-ups of this node it also lists ended flows, for a
    /// while.
    attempts: BTreeSet<(u32, u16)>,
    /// By id the last flow that a peer had set up and that ended otherwise than by a close of this side, and why.
    ended: BTreeMap<u16, (FlowId, ReturnReason)>,
    /// Flows in set-up, and some whose set-up is finished.
    in_setup: Vec<Flow>,
    /// This process was forked: all flows have ended.
    pub(crate) is_forked: bool,
    count: usize,
    /// Where a walk over the flows starts. Ids are given out from here on.
    pub(crate) cursor: u16,
}

impl Flows {
    /// `start` is the first id to give out. It differs from run to run.
    pub(crate) fn new(start: u64) -> Self {
        let count = Flow::COUNT as u64 - 1;
        let nth = |n| ((start % count + n) % count) as u16 + 1;
        let records = Box::new([const { None }; Flow::COUNT]);
        let unused = (0..count).map(nth).collect();
        let (attempts, ended, in_setup) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
        let idle = IdleFlows::default();
        Flows { records, idle, free_ids: unused, attempts, ended, in_setup, is_forked: false, count: 0, cursor: nth(0) }
    }

    /// A free id for a new flow.
    pub(crate) fn reserve(&mut self) -> Option<Flow> {
        Flow::new(self.free_ids.pop_front()?)
    }

    pub(crate) fn insert(&mut self, record: FlowRecord) {
        let flow = record.id.flow;
        if self.attempts.len() >= 2 * Flow::COUNT {
            let mut attempts = std::mem::take(&mut self.attempts);
            let is_there = |attempt: u32, flow: Flow| self.look(flow).is_some_and(|it| it.setup.id == attempt);
            attempts.retain(|&(attempt, flow)| Flow::new(flow).is_some_and(|flow| is_there(attempt, flow)));
            self.attempts = attempts;
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
        if self.is_forked {
            return Some(ReturnReason::Forked);
        }
        self.ended.get(&id.flow.id()).filter(|(ended, _)| *ended == id).map(|(_, reason)| *reason)
    }

    /// This side closes a flow that may have ended.
    pub(crate) fn forget_ended(&mut self, id: FlowId) {
        if self.why_ended(id).is_some() {
            self.ended.remove(&id.flow.id());
        }
    }

    /// The number of a new attempt of this node. `draw` draws them at random: of 16,000, two are equal in one run of 30, and an answer to
    /// the second would be taken for one to the first.
    pub(crate) fn new_attempt(&self, mut draw: impl FnMut() -> u32) -> u32 {
        loop {
            let attempt = draw();
            if self.by_attempt(attempt).next().is_none() {
                return attempt;
            }
        }
    }

    /// The flow ids that resulted from a set-up with this number. The flows may have ended.
    pub(crate) fn by_attempt(&self, attempt: u32) -> impl Iterator<Item = Flow> {
        self.attempts.range((attempt, 0)..=(attempt, u16::MAX)).filter_map(|&(_, flow)| Flow::new(flow))
    }

    /// The flow that resulted from this attempt. `run` is the node that asked, `None` for this node.
    pub(crate) fn find_attempt(&self, run: Option<(NodeId, Incarnation)>, attempt: u32) -> Option<FlowId> {
        let is_it = |record: &Look<'_>| {
            record.setup.id == attempt && if record.setup.is_ours { run.is_none() } else { record.peer.node == run }
        };
        self.by_attempt(attempt).filter_map(|flow| self.look(flow)).find(is_it).map(|record| record.id)
    }

    pub(crate) fn begin_setup(&mut self, flow: Flow) {
        if self.in_setup.len() == self.in_setup.capacity() {
            self.forget_finished_setups();
        }
        self.in_setup.push(flow);
    }

    /// How many set-ups of this node are under way, and some that have finished.
    pub(crate) fn in_setup(&self) -> usize {
        self.in_setup.len()
    }

    pub(crate) fn in_setup_with(&mut self, node: Name) -> Vec<Flow> {
        self.forget_finished_setups();
        let asks = |flow: &&Flow| self.records[flow.index()].as_ref().is_some_and(|it| it.peer.node_name == node);
        self.in_setup.iter().filter(asks).copied().collect()
    }

    fn forget_finished_setups(&mut self) {
        let records = &self.records;
        let is_asking = |flow: &Flow| records[flow.index()].as_ref().is_some_and(|record| record.is_connecting());
        self.in_setup.retain(is_asking);
    }

    /// The flow by the id in a frame. An idle one becomes active.
    #[inline]
    pub(crate) fn by_flow(&mut self, flow: Flow) -> Option<&mut FlowRecord> {
        if self.records[flow.index()].is_some() { self.active(flow) } else { self.activate(flow) }
    }

    /// The same for a flow with messages under way, which is never idle. An idle one is not found.
    #[inline]
    pub(crate) fn active(&mut self, flow: Flow) -> Option<&mut FlowRecord> {
        self.records[flow.index()].as_deref_mut()
    }

    #[cold]
    fn activate(&mut self, flow: Flow) -> Option<&mut FlowRecord> {
        self.records[flow.index()] = self.idle.take(flow).map(Box::new);
        self.active(flow)
    }

    /// Take the memory of flows at rest on which nothing arrived for a while, `limit` of them at most. Returns whether
    /// there may be more.
    pub(crate) fn make_idle(&mut self, now: Time, quiet: Duration, limit: usize, gaps: &mut Gaps) -> bool {
        let mut count = 0;
        for place in &mut *self.records {
            let is_quiet = |record: &FlowRecord| now - record.last_received() >= quiet;
            if !place.as_ref().is_some_and(|record| is_quiet(record) && self.idle.insert(record)) {
                continue;
            }
            let order = place.take().and_then(|mut record| record.reordering.take());
            order.into_iter().for_each(|order| gaps.release_reordering(order));
            count += 1;
            if count == limit {
                return true;
            }
        }
        false
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

    /// The flow with this id, active or idle. It stays as it is.
    pub(crate) fn look(&self, flow: Flow) -> Option<Look<'_>> {
        match &self.records[flow.index()] {
            Some(record) => Some(Look::Active(record)),
            None => self.idle.look(flow).map(Look::Idle),
        }
    }

    /// The flow by the id that the layer above holds, which may be an old one.
    #[inline]
    pub(crate) fn get(&self, id: FlowId) -> Option<Look<'_>> {
        self.look(id.flow).filter(|record| record.id.nonce == id.nonce)
    }

    /// The same, to change it. An idle one becomes active.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: FlowId) -> Option<&mut FlowRecord> {
        self.by_flow(id.flow).filter(|record| record.id.nonce == id.nonce)
    }

    /// The flows for which `which` holds.
    pub(crate) fn filter(&self, which: impl Fn(&FlowRecord) -> bool) -> Vec<FlowId> {
        let active = self.iter_active().filter(|record| which(record)).map(|record| record.id);
        active.chain(self.idle.iter().filter(|record| which(record)).map(|record| record.id)).collect()
    }

    /// The same among the flows of peers whose run `is_its` holds for. That many flows have other peers costs little.
    pub(crate) fn filter_of(
        &self,
        is_its: impl Fn(&PeerRun) -> bool,
        which: impl Fn(&FlowRecord) -> bool,
    ) -> Vec<FlowId> {
        let is_of = |record: &&FlowRecord| record.peer.node.as_ref().is_some_and(&is_its) && which(record);
        let active = self.iter_active().filter(is_of).map(|record| record.id);
        active.chain(self.idle.iter_of(&is_its).filter(|record| which(record)).map(|record| record.id)).collect()
    }

    /// This node has another address.
    pub(crate) fn forget_templates(&mut self) {
        self.records.iter_mut().flatten().for_each(|record| record.template = None);
    }

    pub(crate) fn iter_active(&self) -> impl Iterator<Item = &FlowRecord> {
        self.records.iter().flatten().map(|record| &**record)
    }
}

/// A flow that is looked at.
#[expect(clippy::large_enum_variant, reason = "it lives as long as one look")]
pub(crate) enum Look<'a> {
    Active(&'a FlowRecord),
    Idle(FlowRecord),
}

impl Deref for Look<'_> {
    type Target = FlowRecord;

    #[inline]
    fn deref(&self) -> &FlowRecord {
        match self {
            Look::Active(record) => record,
            Look::Idle(record) => record,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_attempts_have_one_number() {
        let mut flows = Flows::new(0);
        flows.attempts.insert((7, 1));
        let mut drawn = [7, 7, 8].into_iter();
        assert_eq!(flows.new_attempt(|| drawn.next().unwrap_or(0)), 8);
    }
}
