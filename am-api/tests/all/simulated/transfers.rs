//! Bulk transfers of the application.

use std::collections::HashMap;

use am_api::{Connection, Endpoint, RegionId, Transfer, TransferError, TransferId, TransferKind};
use am_netdev_sim::check::content::{MessageId, NodeRun, fill};
use am_netdev_sim::check::transfers::{Side, TransferTarget};
use rand::Rng;

use super::seen::SLOT;
use crate::simulated::app::{App, Flow};

/// Transfers that were asked for: where they go, and to which use of that memory.
pub(crate) type Under = HashMap<(Connection, TransferId), (TransferTarget, RegionId, NodeRun)>;

impl App {
    /// With a request, perhaps.
    pub(crate) fn transfer(&mut self, endpoint: &Endpoint<App>, flow: Flow) {
        if self.random.random_bool(self.work.put) {
            self.put(endpoint, flow);
        }
        if self.random.random_bool(self.work.get) {
            self.get(endpoint, flow);
        }
        if self.random.random_bool(self.work.cancel) {
            self.cancel(endpoint);
        }
    }

    fn put(&mut self, endpoint: &Endpoint<App>, flow: Flow) {
        let memory = self.common.memory.borrow();
        let mut checks = self.common.checks.borrow_mut();
        let Some(there) = memory.get(&flow.to) else { return };
        let Some(place) = checks.place(flow.to, false) else { return };
        let mut data = vec![0; self.random.random_range(0..=SLOT)];
        fill(&mut data, MessageId { from: self.run, number: place.slot }, 0);
        let (region, offset) = (there.put.id(), (place.slot as usize * SLOT) as u64);
        // It may have ended just now.
        let Ok(id) = endpoint.put(flow.remote, region, offset, data.clone()) else { return };
        checks.transfers.started(place, self.run, flow.to, data);
        self.under.insert((flow.remote, id), (place, region, there.run));
    }

    /// Any that was asked for, most of which are over.
    fn cancel(&mut self, endpoint: &Endpoint<App>) {
        let mut all: Vec<_> = self.under.keys().copied().collect();
        // A run follows from its seed.
        all.sort_by_key(|(_, id)| format!("{id:?}"));
        if let Some(&(remote, id)) = all.get(self.random.random_range(0..all.len().max(1))) {
            endpoint.cancel(remote, id);
        }
    }

    fn get(&mut self, endpoint: &Endpoint<App>, flow: Flow) {
        let memory = self.common.memory.borrow();
        let mut checks = self.common.checks.borrow_mut();
        let (Some(there), Some(here)) = (memory.get(&flow.to), memory.get(&self.run.node)) else { return };
        let Some(place) = checks.place(self.run.node, true) else { return };
        let from = self.random.random_range(0..=SLOT);
        let until = self.random.random_range(from..=SLOT);
        let (offset, length, into) = (from as u64, (until - from) as u64, (place.slot as usize * SLOT) as u64);
        let Ok(id) = endpoint.get(flow.remote, there.served.id(), offset, length, &here.got, into) else { return };
        checks.transfers.started(place, self.run, flow.to, there.served.bytes()[from..until].to_vec());
        self.under.insert((flow.remote, id), (place, there.served.id(), there.run));
    }

    pub(crate) fn on_transfer(&mut self, over: &Transfer<'_, App>) {
        let side = match over.kind {
            TransferKind::Put | TransferKind::Get => Side::Initiator,
            TransferKind::Deposited | TransferKind::Served => Side::Other,
        };
        let place = match over.kind {
            TransferKind::Put | TransferKind::Get => {
                self.under.get(&(over.connection, over.id)).map(|(place, ..)| *place)
            }
            TransferKind::Deposited => Some(self.run.node).map(|node| placed(node, false, over)),
            TransferKind::Served => self.peers.get(&over.connection).map(|&node| placed(node, true, over)),
        };
        let Some(place) = place else {
            return self.common.checks.borrow_mut().wrong("transfers", format!("{:?} of nobody's", over.kind));
        };
        if let Err(TransferError::Cancelled { .. }) = over.result {
            self.common.saw("cancelled");
        }
        self.common.saw(match (over.kind, over.result.is_ok()) {
            (TransferKind::Put, true) => "put",
            (TransferKind::Get, true) => "got",
            (TransferKind::Deposited, true) => "deposited",
            (TransferKind::Served, true) => "served",
            (_, false) => "transfer lost",
        });
        let mut checks = self.common.checks.borrow_mut();
        let checked = checks.transfers.ended(place, side, over.result.is_ok());
        checks.note(checked);
        if let Err(error) = over.result
            && !matches!(error, TransferError::Lost { .. } | TransferError::Cancelled { .. })
        {
            checks.wrong("transfers", format!("{place:?} ended with: {error}"));
        }
        drop(checks);
        self.compare(place, over);
    }

    /// What is in the memory that the transfer went to, while it is there.
    fn compare(&self, place: TransferTarget, over: &Transfer<'_, App>) {
        let arrived = match over.result {
            Ok(()) => over.length as usize,
            Err(TransferError::Lost { from, .. } | TransferError::Cancelled { from }) => from as usize,
            Err(_) => 0,
        };
        let memory = self.common.memory.borrow();
        let Some(there) = memory.get(&place.node) else { return };
        // Another use of the place's node, or of its endpoint, has other memory.
        let is_it = match over.kind {
            TransferKind::Put => {
                let asked = self.under.get(&(over.connection, over.id));
                asked.is_some_and(|&(_, region, run)| region == there.put.id() && run == there.run)
            }
            TransferKind::Get | TransferKind::Deposited => true,
            TransferKind::Served => false,
        };
        if is_it {
            let mut checks = self.common.checks.borrow_mut();
            let checked = there.check(&checks.transfers, place, arrived);
            checks.note(checked);
        }
    }
}

fn placed(node: u16, is_got: bool, over: &Transfer<'_, App>) -> TransferTarget {
    TransferTarget { node, is_get: is_got, slot: (over.offset as usize / SLOT) as u32 }
}
