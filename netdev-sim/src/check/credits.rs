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
    /// Together with those under way that is more than was granted.
    pub fn check(&self, flow: u64, left: usize) -> Checked {
        let Some(Account { granted, sent, released }) = self.flows.get(&flow).copied() else { return Ok(()) };
        if released > sent {
            return wrong(flow, format!("{released} messages released, but only {sent} sent"));
        }
        let used = left + (sent - released);
        if used > granted {
            return wrong(flow, format!("{granted} granted, but {used} used or left"));
        }
        Ok(())
    }

    /// The sender says that so many are left, and nothing has been on its way for long.
    /// Where a frame was lost it may have been news of credit, which the next message
    /// brings again; but there must be credit for a next message.
    ///
    /// # Errors
    /// As for [`Credits::check`]; none is left; or `lossless`, and less is left than was granted.
    pub fn settled(&self, flow: u64, left: usize, lossless: bool) -> Checked {
        self.check(flow, left)?;
        let granted = self.flows.get(&flow).map_or(0, |account| account.granted);
        if granted > left && (lossless || left == 0) {
            return wrong(flow, format!("{granted} granted, but only {left} are left when all is quiet"));
        }
        Ok(())
    }
}

fn wrong(flow: u64, what: String) -> Checked {
    Err(Violation::new("credits", format!("flow {flow}: {what}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credit_made_up_and_a_credit_lost_are_seen() {
        let mut credits = Credits::default();
        credits.granted(1, 4);
        credits.sent(1);
        assert_eq!(credits.check(1, 3), Ok(()));
        assert!(credits.check(1, 4).is_err(), "one made up");
        credits.released(1);
        assert_eq!(credits.check(1, 3), Ok(()), "not told yet");
        assert!(credits.settled(1, 3, true).is_err(), "one lost");
        assert_eq!(credits.settled(1, 3, false), Ok(()), "the next message brings it");
        assert!(credits.settled(1, 0, false).is_err(), "there is no next message");
        assert_eq!(credits.settled(1, 4, true), Ok(()));
        credits.released(1);
        assert!(credits.check(1, 4).is_err(), "released what was never sent");
    }
}
