//! Credits are conserved. A sender's remaining credits, and its messages that the receiver has not released, are together
//! never more than the receiver grants. When the network is quiet they are exactly that many. The receiver changes its
//! grant as it shares its window among senders, but never to zero.

use std::collections::BTreeMap;

use am_wire::Class;

use super::{Checked, ensure};

/// The credits of every flow, by a number that the caller gives it, and class.
#[derive(Debug, Default)]
pub struct Credits {
    flows: BTreeMap<(u64, usize), Account>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    granted: usize,
    sent: usize,
    released: usize,
}

impl Credits {
    /// A flow is open. This many messages of the class may be on their way.
    pub fn open_flow(&mut self, flow: u64, class: Class, credits: usize) {
        self.flows.insert((flow, class.index()), Account { granted: credits, ..Account::default() });
    }

    /// The receiver grants this many from now on.
    ///
    /// # Errors
    /// The grant is zero, so the sender would wait for ever.
    pub fn change_grant(&mut self, flow: u64, class: Class, credits: usize) -> Checked {
        if let Some(account) = self.flows.get_mut(&(flow, class.index())) {
            account.granted = credits;
        }
        ensure_of(flow, class, credits > 0, || "no credit is granted".into())
    }

    /// A message was admitted.
    pub fn sent(&mut self, flow: u64, class: Class) {
        self.flows.entry((flow, class.index())).or_default().sent += 1;
    }

    /// The receiver has released a message.
    pub fn released(&mut self, flow: u64, class: Class) {
        self.flows.entry((flow, class.index())).or_default().released += 1;
    }

    /// How many messages were admitted, and how many of these were released.
    pub fn counts(&self, flow: u64, class: Class) -> (usize, usize) {
        self.flows.get(&(flow, class.index())).map_or((0, 0), |account| (account.sent, account.released))
    }

    /// The sender has `left` credits. Replies are admitted without credit, and wait for it; while they wait, none is
    /// left.
    ///
    /// # Errors
    /// Together with the messages under way these are more than were granted.
    pub fn check(&self, flow: u64, class: Class, left: usize) -> Checked {
        let Some(&Account { granted, sent, released }) = self.flows.get(&(flow, class.index())) else { return Ok(()) };
        let only = || format!("{released} messages released, but only {sent} sent");
        ensure_of(flow, class, released <= sent, only)?;
        let used = left + (sent - released);
        let may_wait = class == Class::Reply && left == 0;
        ensure_of(flow, class, used <= granted || may_wait, || format!("{granted} granted, but {used} used or left"))
    }

    /// The sender has `left` credits, no message is under way, and no grant was lost. [`Credits::check`] holds, and all
    /// granted credits are left.
    ///
    /// # Errors
    /// One of the two does not hold.
    pub fn check_settled(&self, flow: u64, class: Class, left: usize) -> Checked {
        self.check(flow, class, left)?;
        let granted = self.flows.get(&(flow, class.index())).map_or(left, |account| account.granted);
        let text = || format!("{granted} granted, but {left} are left when all is quiet");
        ensure_of(flow, class, granted == left, text)
    }
}

fn ensure_of(flow: u64, class: Class, holds: bool, what: impl FnOnce() -> String) -> Checked {
    let class = if class == Class::Request { "requests" } else { "replies" };
    ensure(holds, "credits", || format!("flow {flow:#x}, {class}: {}", what()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Class::{Reply, Request};

    #[test]
    fn a_credit_made_up_and_a_credit_lost_are_seen() {
        let mut credits = Credits::default();
        credits.open_flow(1, Request, 4);
        credits.sent(1, Request);
        assert_eq!(credits.check(1, Request, 3), Ok(()));
        assert!(credits.check(1, Request, 4).is_err(), "one invented");
        credits.released(1, Request);
        assert_eq!(credits.check(1, Request, 3), Ok(()), "the credit is not granted yet");
        assert!(credits.check_settled(1, Request, 3).is_err(), "one lost");
        assert_eq!(credits.check_settled(1, Request, 4), Ok(()));
        credits.released(1, Request);
        assert!(credits.check(1, Request, 4).is_err(), "released a message that was never sent");
    }

    #[test]
    fn credit_that_is_given_back_is_not_used_any_more() {
        let mut credits = Credits::default();
        credits.open_flow(1, Request, 4);
        credits.sent(1, Request);
        credits.released(1, Request);
        assert_eq!(credits.change_grant(1, Request, 3), Ok(()));
        assert_eq!(credits.check_settled(1, Request, 3), Ok(()));
        assert!(credits.check(1, Request, 4).is_err(), "it was given back");
        assert_eq!(credits.change_grant(1, Request, 6), Ok(()));
        assert!(credits.check_settled(1, Request, 3).is_err(), "it grew");
        assert!(credits.change_grant(1, Request, 0).is_err());
    }

    #[test]
    fn replies_may_wait_for_credit() {
        let mut credits = Credits::default();
        credits.open_flow(1, Reply, 1);
        (0..3).for_each(|_| credits.sent(1, Reply));
        assert_eq!(credits.check(1, Reply, 0), Ok(()));
        assert!(credits.check(1, Reply, 1).is_err());
        (0..3).for_each(|_| credits.released(1, Reply));
        assert_eq!(credits.check_settled(1, Reply, 1), Ok(()));
    }
}
