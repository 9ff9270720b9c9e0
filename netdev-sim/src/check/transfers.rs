//! Bulk transfers: who asked for one hears once how it ended, the other side at
//! most once; what is said to be there is there, and nothing beside it.

use std::collections::BTreeMap;

use super::content::Run;
use super::{Checked, Violation};

/// Where a transfer puts its bytes: each has a place of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The node whose memory it is.
    pub node: u16,
    /// That node asked for it; otherwise another puts it there.
    pub is_got: bool,
    /// Which place of that node.
    pub slot: u32,
}

/// Which end of a transfer says that it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Who asked for it.
    Asker,
    /// The other one.
    Other,
}

#[derive(Clone, Debug)]
struct Record {
    asker: Run,
    other: u16,
    bytes: Vec<u8>,
    /// How it ended, as each side says.
    told: [Option<bool>; 2],
    /// One of the two died since, or closed its endpoint.
    excused: bool,
}

/// Every transfer that was ever asked for, and what became of it.
#[derive(Debug, Default)]
pub struct Transfers {
    records: BTreeMap<Place, Record>,
    unresolved: usize,
}

fn wrong(what: String) -> Checked {
    Err(Violation::new("transfers", what))
}

impl Transfers {
    /// These bytes are to come to this place, from `other` or by it.
    pub fn asked(&mut self, place: Place, asker: Run, other: u16, bytes: Vec<u8>) {
        self.records.insert(place, Record { asker, other, bytes, told: [None; 2], excused: false });
        self.unresolved += 1;
    }

    /// A side says that it is over, and whether all went well.
    ///
    /// # Errors
    /// For the second time, never asked for, or well while the side where the
    /// bytes are has not said so.
    pub fn over(&mut self, place: Place, side: Side, is_well: bool) -> Checked {
        let Some(record) = self.records.get_mut(&place) else { return wrong(format!("{place:?} was never asked for")) };
        if record.told[side as usize].is_some() {
            return wrong(format!("{place:?} was over twice for {side:?}"));
        }
        self.unresolved -= (side == Side::Asker && !record.excused) as usize;
        record.told[side as usize] = Some(is_well);
        let receiver = if place.is_got { Side::Asker } else { Side::Other };
        if is_well && !record.excused && record.told[receiver as usize] != Some(true) {
            return wrong(format!("{place:?} went well, says {side:?}, but its receiver has not said so"));
        }
        Ok(())
    }

    /// The memory of a place, in which everything before byte `arrived` is said
    /// to be; where that is all, the rest is as it was: zero.
    ///
    /// # Errors
    /// It is not.
    pub fn content(&self, place: Place, memory: &[u8], arrived: usize) -> Checked {
        let Some(Record { bytes, .. }) = self.records.get(&place) else { return Ok(()) };
        let arrived = arrived.min(bytes.len());
        if memory.get(..arrived) != Some(&bytes[..arrived]) {
            return wrong(format!("of {place:?} the first {arrived} bytes are not what was sent"));
        }
        if memory[bytes.len()..].iter().any(|&byte| byte != 0) {
            return wrong(format!("beside {place:?} something was written"));
        }
        Ok(())
    }

    /// A node died, or closed its endpoint, with all transfers under way.
    pub fn died(&mut self, dead: Run) {
        for record in self.records.values_mut() {
            if (record.asker == dead || record.other == dead.node) && !record.excused {
                record.excused = true;
                self.unresolved -= record.told[Side::Asker as usize].is_none() as usize;
            }
        }
    }

    /// One of them, to be told: its place, and who asked for it from whom.
    pub fn first_unresolved(&self) -> Option<(Place, Run, u16)> {
        let is_open = |record: &Record| !record.excused && record.told[Side::Asker as usize].is_none();
        let mut open = self.records.iter().filter(|(_, record)| is_open(record));
        open.next().map(|(place, record)| (*place, record.asker, record.other))
    }

    /// Transfers whose asker lives and has not heard how they ended.
    pub fn unresolved(&self) -> usize {
        self.unresolved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Run = Run { node: 0, run: 1 };
    const PUT: Place = Place { node: 1, is_got: false, slot: 7 };

    fn one() -> Transfers {
        let mut transfers = Transfers::default();
        transfers.asked(PUT, A, 1, vec![3; 10]);
        transfers
    }

    #[test]
    fn once_at_either_side() {
        let mut transfers = one();
        assert_eq!(transfers.unresolved(), 1);
        assert_eq!(transfers.over(PUT, Side::Other, true), Ok(()));
        assert_eq!(transfers.over(PUT, Side::Asker, true), Ok(()));
        assert_eq!(transfers.unresolved(), 0);
        assert!(transfers.over(PUT, Side::Asker, true).is_err(), "twice");
        assert!(transfers.over(PUT, Side::Other, false).is_err(), "twice");
        assert!(transfers.over(Place { slot: 8, ..PUT }, Side::Asker, true).is_err(), "never asked for");
    }

    #[test]
    fn not_well_before_it_is_there() {
        assert!(one().over(PUT, Side::Asker, true).is_err());
        assert_eq!(one().over(PUT, Side::Asker, false), Ok(()));
        let mut excused = one();
        excused.died(Run { node: 1, run: 1 });
        assert_eq!((excused.unresolved(), excused.over(PUT, Side::Asker, true)), (0, Ok(())));
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
