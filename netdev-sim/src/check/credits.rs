//! Credits conserved: what a sender may still send, and what it sent that the
//! receiver has not released, is together never more than was granted; and
//! when all is quiet it is exactly that.

use std::collections::BTreeMap;

use super::{Checked, Violation};

/// The credits of every flow, by a number that the caller gives it.
#[derive(Debug, Default)]
pub struct Credits {
    flows: BTreeMap<u64, Account>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    granted: usize,
    sent: usize,
    released: usize,
}

impl Credits {
    /// A flow is open: so many messages may be on their way.
    pub fn granted(&mut self, flow: u64, credits: usize) {
        self.flows.insert(flow, Account { granted: credits, ..Account::default() });
    }

    /// A message was admitted.
    pub fn sent(&mut self, flow: u64) {
        self.flows.entry(flow).or_default().sent += 1;
    }

    /// The receiver has handled one.
    pub fn released(&mut self, flow: u64) {
        self.flows.entry(flow).or_default().released += 1;
    }

    /// The sender says that so many are left.
    ///
    /// # Errors
    /// Together with those under way that is more than was granted, or, when
    /// everything has been `settled`, less.
    pub fn check(&self, flow: u64, left: usize, settled: bool) -> Checked {
        let Some(Account { granted, sent, released }) = self.flows.get(&flow).copied() else { return Ok(()) };
        let wrong = |what| Err(Violation::new("credits", format!("flow {flow}: {what}")));
        if released > sent {
            return wrong(format!("{released} messages released, but only {sent} sent"));
        }
        let used = left + (sent - released);
        if used > granted {
            return wrong(format!("{granted} granted, but {used} used or left"));
        }
        if settled && used < granted {
            return wrong(format!("{granted} granted, but only {used} are left when all is quiet"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credit_made_up_and_a_credit_lost_are_seen() {
        let mut credits = Credits::default();
        credits.granted(1, 4);
        credits.sent(1);
        assert_eq!(credits.check(1, 3, false), Ok(()));
        assert!(credits.check(1, 4, false).is_err(), "one made up");
        credits.released(1);
        assert_eq!(credits.check(1, 3, false), Ok(()), "not told yet");
        assert!(credits.check(1, 3, true).is_err(), "one lost");
        assert_eq!(credits.check(1, 4, true), Ok(()));
        credits.released(1);
        assert!(credits.check(1, 4, false).is_err(), "released what was never sent");
    }
}
