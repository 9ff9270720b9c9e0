//! Lends queues of the NIC to programs that an access rule trusts with one.

use std::cell::OnceCell;
use std::time::Instant;

use am_transport::{Command, LentQueue, PeerAddressError};
use am_vnic::protocol::Hello;
use am_wire::Address;

use crate::daemon::Daemon;
use crate::visit::Visit;

/// The result of a program's request for a queue.
pub(crate) enum Lending {
    /// The program gets a queue, no queue because no rule allows one, or the reason for which none can be lent.
    Done(Result<Option<LentQueue>, String>),
    /// The program waits: a queue may be free soon.
    Later,
}

impl Daemon {
    /// Lend a program a queue, if a rule allows it one. The lease ends when the address is no longer served.
    pub(crate) fn lend_queue(&mut self, visit: &mut Visit, hello: &Hello, to: Address, now: Instant) -> Lending {
        let owner = visit.owner;
        if !self.access.allowance(&owner).is_ok_and(|allowance| allowance.queue) {
            return Lending::Done(Ok(None));
        }
        let why = match self.open_queue(hello, to) {
            Ok(Ok(lent)) => return Lending::Done(Ok(Some(lent))),
            Ok(Err(PeerAddressError::NoQueue { may_come: true, .. })) if visit.waits_for_queue(now) => {
                return Lending::Later;
            }
            Ok(Err(why)) => why.to_string(),
            Err(why) => why.into(),
        };
        if self.budgets.has_line(owner.uid, now) {
            tracing::warn!("{owner} has a port and no queue: {why}");
        }
        Lending::Done(Err(why))
    }

    /// Ask the wire for a queue. The inner error is the wire's.
    ///
    /// # Errors
    /// The reason for which the wire was not asked.
    fn open_queue(&mut self, hello: &Hello, to: Address) -> Result<Result<LentQueue, PeerAddressError>, &'static str> {
        if !hello.can_use_queue {
            return Err("the program was built without `xdp`, or attached without a queue before");
        }
        let wire = self.switch.wire.as_mut().ok_or("there is no wire")?;
        let lent = OnceCell::new();
        match wire.control(Command::LendQueue { to, lent: &lent }) {
            Ok(()) => lent.into_inner().ok_or("the wire gave none").map(Ok),
            Err(why) => Ok(Err(why)),
        }
    }
}
