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
}

impl Flows {
    /// `start` is where giving out ids begins: different from run to run.
    pub(crate) fn new(start: u64) -> Self {
        let count = Flow::COUNT as u64 - 1;
        let nth = |n| ((start % count + n) % count) as u16 + 1;
        let mut records = Vec::new();
        records.resize_with(Flow::COUNT, || None);
        Flows { records, unused: (0..count).map(nth).collect() }
    }

    /// An id for a flow to be inserted.
    pub(crate) fn reserve(&mut self) -> Option<Flow> {
        Flow::new(self.unused.pop_front()?)
    }

    pub(crate) fn insert(&mut self, record: FlowRecord) {
        let index = record.id.flow.index();
        self.records[index] = Some(Box::new(record));
    }

    pub(crate) fn remove(&mut self, flow: Flow) {
        if self.records[flow.index()].take().is_some() {
            self.unused.push_back(flow.id());
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

    pub(crate) fn iter(&self) -> impl Iterator<Item = &FlowRecord> {
        self.records.iter().flatten().map(|record| &**record)
    }
}
