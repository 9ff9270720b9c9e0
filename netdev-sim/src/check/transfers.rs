//! Bulk transfers. The initiator gets the outcome once, the other side at most once. Bytes that are reported as arrived
//! are in their place, and no other byte has changed.

use std::collections::BTreeMap;

use super::content::NodeRun;
use super::{Checked, Violation, ensure};

/// Where a transfer puts its bytes. No two transfers share a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferTarget {
    /// The node that owns the memory.
    pub node: u16,
    /// Whether that node gets the bytes. Otherwise another node puts them there.
    pub is_get: bool,
    /// The number of the place in that node.
    pub slot: u32,
}

/// The two sides of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The initiator.
    Initiator,
    /// The other side.
    Other,
}

#[derive(Clone, Debug)]
struct TransferRecord {
    initiator: NodeRun,
    other: u16,
    bytes: Vec<u8>,
    /// The outcome that each side reports.
    outcomes: [Option<bool>; 2],
    /// One of the two nodes has died since, or closed its endpoint.
    excused: bool,
}

/// Every transfer that was started, and its outcome.
#[derive(Debug, Default)]
pub struct Transfers {
    records: BTreeMap<TransferTarget, TransferRecord>,
    unresolved: usize,
}

impl Transfers {
    /// A transfer was started: these bytes are to come to this place. `other` is the other side.
    pub fn started(&mut self, place: TransferTarget, asker: NodeRun, other: u16, bytes: Vec<u8>) {
        self.records
            .insert(place, TransferRecord { initiator: asker, other, bytes, outcomes: [None; 2], excused: false });
        self.unresolved += 1;
    }

    /// A side reports that the transfer has ended, and whether it succeeded.
    ///
    /// # Errors
    /// The side has reported before, the transfer was never started, or it is reported as a success before the receiver
    /// of the bytes has reported success.
    pub fn ended(&mut self, place: TransferTarget, side: Side, is_well: bool) -> Checked {
        let never = || Violation { checker: "transfers", what: format!("{place:?} was never started") };
        let record = self.records.get_mut(&place).ok_or_else(never)?;
        let is_first = record.outcomes[side as usize].is_none();
        ensure(is_first, "transfers", || format!("{place:?} ended twice for {side:?}"))?;
        self.unresolved -= (side == Side::Initiator && !record.excused) as usize;
        record.outcomes[side as usize] = Some(is_well);
        let receiver = if place.is_get { Side::Initiator } else { Side::Other };
        let has_arrived = record.outcomes[receiver as usize] == Some(true);
        ensure(!is_well || record.excused || has_arrived, "transfers", || {
            format!("{place:?} succeeded for {side:?}, but not yet for its receiver")
        })
    }

    /// Check the memory of a place. The bytes before `arrived` are as sent, and the memory behind the transfer is still
    /// zero.
    ///
    /// # Errors
    /// A byte is wrong.
    pub fn content(&self, place: TransferTarget, memory: &[u8], arrived: usize) -> Checked {
        let Some(TransferRecord { bytes, .. }) = self.records.get(&place) else { return Ok(()) };
        let arrived = arrived.min(bytes.len());
        ensure(memory.get(..arrived) == Some(&bytes[..arrived]), "transfers", || {
            format!("the first {arrived} bytes of {place:?} are not what was sent")
        })?;
        let is_clean = memory[bytes.len()..].iter().all(|&byte| byte == 0);
        ensure(is_clean, "transfers", || format!("a byte behind {place:?} was written"))
    }

    /// A node died, or closed its endpoint. Its transfers are excused.
    pub fn excuse(&mut self, dead: NodeRun) {
        for record in self.records.values_mut() {
            if (record.initiator == dead || record.other == dead.node) && !record.excused {
                record.excused = true;
                self.unresolved -= record.outcomes[Side::Initiator as usize].is_none() as usize;
            }
        }
    }

    /// One unresolved transfer, for the error text: its place, its initiator, the other side.
    pub fn first_unresolved(&self) -> Option<(TransferTarget, NodeRun, u16)> {
        let is_open = |record: &TransferRecord| !record.excused && record.outcomes[Side::Initiator as usize].is_none();
        let mut open = self.records.iter().filter(|(_, record)| is_open(record));
        open.next().map(|(place, record)| (*place, record.initiator, record.other))
    }

    /// How many transfers have a live initiator without an outcome.
    pub fn unresolved(&self) -> usize {
        self.unresolved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeRun = NodeRun { node: 0, run: 1 };
    const PUT: TransferTarget = TransferTarget { node: 1, is_get: false, slot: 7 };

    fn one() -> Transfers {
        let mut transfers = Transfers::default();
        transfers.started(PUT, A, 1, vec![3; 10]);
        transfers
    }

    #[test]
    fn each_side_ends_once() {
        let mut transfers = one();
        assert_eq!(transfers.unresolved(), 1);
        assert_eq!(transfers.ended(PUT, Side::Other, true), Ok(()));
        assert_eq!(transfers.ended(PUT, Side::Initiator, true), Ok(()));
        assert_eq!(transfers.unresolved(), 0);
        assert!(transfers.ended(PUT, Side::Initiator, true).is_err(), "twice");
        assert!(transfers.ended(PUT, Side::Other, false).is_err(), "twice");
        assert!(transfers.ended(TransferTarget { slot: 8, ..PUT }, Side::Initiator, true).is_err(), "never asked for");
    }

    #[test]
    fn no_success_before_the_bytes_are_there() {
        assert!(one().ended(PUT, Side::Initiator, true).is_err());
        assert_eq!(one().ended(PUT, Side::Initiator, false), Ok(()));
        let mut excused = one();
        excused.excuse(NodeRun { node: 1, run: 1 });
        assert_eq!((excused.unresolved(), excused.ended(PUT, Side::Initiator, true)), (0, Ok(())));
        assert_eq!(excused.unresolved(), 0);
    }

    #[test]
    fn what_is_there_is_what_was_sent_and_no_more() {
        let (transfers, mut memory) = (one(), vec![3; 10]);
        memory.resize(20, 0);
        assert_eq!(transfers.content(PUT, &memory, 10), Ok(()));
        memory[9] = 0;
        assert_eq!(transfers.content(PUT, &memory, 9), Ok(()), "as far as it is said");
        assert!(transfers.content(PUT, &memory, 10).is_err());
        memory[15] = 1;
        assert!(transfers.content(PUT, &memory, 0).is_err(), "beside it");
    }
}
