//! All flows of a node, by the flow id that it gave them.

use std::collections::VecDeque;

use wire::Flow;

use crate::FlowId;
use crate::flow::FlowRecord;

/// The table. An id that was given back is used again as late as possible, so
/// that a frame which was long under way hardly ever finds somebody else.
#[derive(Debug)]
pub(crate) struct Flows {
    records: Vec<Option<Box<FlowRecord>>>,
    unused: VecDeque<u16>,
    /// How many there are.
    count: usize,
    /// Where to look first for those there are: ids are given out from here on.
    from: u16,
}

impl Flows {
    /// `start` is where giving out ids begins: different from run to run.
    pub(crate) fn new(start: u64) -> Self {
        let count = Flow::COUNT as u64 - 1;
        let nth = |n| ((start % count + n) % count) as u16 + 1;
        let mut records = Vec::new();
        records.resize_with(Flow::COUNT, || None);
        Flows { records, unused: (0..count).map(nth).collect(), count: 0, from: nth(0) }
    }

    /// An id for a flow to be inserted.
    pub(crate) fn reserve(&mut self) -> Option<Flow> {
        Flow::new(self.unused.pop_front()?)
    }

    pub(crate) fn insert(&mut self, record: FlowRecord) {
        let index = record.id.flow.index();
        self.records[index] = Some(Box::new(record));
        self.count += 1;
    }

    pub(crate) fn remove(&mut self, flow: Flow) {
        if self.records[flow.index()].take().is_some() {
            self.unused.push_back(flow.id());
            self.count -= 1;
        }
    }

    /// By the id in a frame.
    #[inline]
    pub(crate) fn by_flow(&mut self, flow: Flow) -> Option<&mut FlowRecord> {
        self.records[flow.index()].as_deref_mut()
    }

    /// By the id that the layer above holds, which may be an old one.
    #[inline]
    pub(crate) fn get(&self, id: FlowId) -> Option<&FlowRecord> {
        self.records[id.flow.index()].as_deref().filter(|record| record.id == id)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: FlowId) -> Option<&mut FlowRecord> {
        self.records[id.flow.index()].as_deref_mut().filter(|record| record.id == id)
    }

    /// All, from where the last round ended on.
    pub(crate) fn around(&self) -> impl Iterator<Item = &FlowRecord> {
        let (before, after) = self.records.split_at(self.from as usize);
        after.iter().chain(before).flatten().take(self.count).map(|record| &**record)
    }

    /// The next round starts with this one.
    pub(crate) fn turn_to(&mut self, flow: Option<Flow>) {
        self.from = flow.map_or(self.from, Flow::id);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &FlowRecord> {
        self.records.iter().flatten().map(|record| &**record)
    }
}
