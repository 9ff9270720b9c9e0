//! What all nodes of a world share, as nodes never do: the checkers, and the
//! memory of all of them, to compare.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};

use am_api::{Endpoint, Region, Rights};
use am_netdev_sim::Nanos;
use am_netdev_sim::check::content::{MessageId, NodeRun, fill};
use am_netdev_sim::check::delivery::Deliveries;
use am_netdev_sim::check::transfers::{TransferTarget, Transfers};
use am_netdev_sim::check::{Checked, Violation};

/// Bytes of a place that a transfer may fill: several segments.
pub(crate) const SLOT: usize = 6000;
/// Places of a node, in each direction.
const SLOTS: u32 = 24;

/// How often what has happened.
pub(crate) type Seen = BTreeMap<&'static str, u64>;

#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) deliveries: Deliveries,
    pub(crate) transfers: Transfers,
    pub(crate) seen: Seen,
    /// The first that was found in a handler.
    violation: Option<Violation>,
    slots: BTreeMap<(u16, bool), u32>,
    /// Messages that were sent later than others with higher numbers.
    pub(crate) prepared: HashSet<MessageId>,
}

impl Checks {
    pub(crate) fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// A checker has found a violation at a place that cannot report it.
    pub(crate) fn note(&mut self, checked: Checked) {
        if let Err(violation) = checked {
            self.violation.get_or_insert(violation);
        }
    }

    pub(crate) fn wrong(&mut self, checker: &'static str, what: String) {
        self.note(Err(Violation { checker, what }));
    }

    pub(crate) fn take(&mut self) -> Checked {
        self.violation.take().map_or(Ok(()), Err)
    }

    /// A place that has not been used, if there is one.
    pub(crate) fn place(&mut self, node: u16, is_got: bool) -> Option<TransferTarget> {
        let next = self.slots.entry((node, is_got)).or_default();
        let slot = *next;
        *next += 1;
        (slot < SLOTS).then_some(TransferTarget { node, is_get: is_got, slot })
    }
}

/// The regions of one endpoint.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) run: NodeRun,
    /// What peers put.
    pub(crate) put: Region,
    /// What this side gets.
    pub(crate) got: Region,
    /// What peers get.
    pub(crate) served: Region,
}

impl Memory {
    pub(crate) fn register<S>(endpoint: &Endpoint<S>, run: NodeRun) -> Memory {
        let empty = || vec![0; SLOT * SLOTS as usize];
        let mut content = vec![0; SLOT];
        fill(&mut content, MessageId { from: run, number: u32::MAX }, 0);
        Memory {
            run,
            put: endpoint.register(empty(), Rights::WRITE),
            got: endpoint.register(empty(), Rights::NONE),
            served: endpoint.register(content, Rights::READ),
        }
    }

    /// What is in a place of this endpoint, of which so much is said to be there.
    pub(crate) fn check(&self, transfers: &Transfers, place: TransferTarget, arrived: usize) -> Checked {
        let region = if place.is_get { &self.got } else { &self.put };
        let at = place.slot as usize * SLOT;
        transfers.content(place, &region.bytes()[at..at + SLOT], arrived)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Common {
    pub(crate) checks: RefCell<Checks>,
    /// Of each node that lives.
    pub(crate) memory: RefCell<BTreeMap<u16, Memory>>,
    pub(crate) nodes: u16,
    /// From now on nothing new is begun.
    pub(crate) quiet_from: Nanos,
}

impl Common {
    pub(crate) fn saw(&self, what: &'static str) {
        self.checks.borrow_mut().saw(what);
    }

    /// A node died, or closed its endpoint.
    pub(crate) fn died(&self, run: NodeRun) {
        let mut checks = self.checks.borrow_mut();
        checks.deliveries.excuse(run);
        checks.transfers.excuse(run);
    }
}
