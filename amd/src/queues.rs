//! Queues of the NIC for programs that are trusted with one.

use std::cell::OnceCell;
use std::time::Instant;

use am_transport::{Command, LentQueue};
use am_vnic::protocol::Hello;
use am_wire::Address;

use crate::daemon::Daemon;
use crate::member::Owner;

impl Daemon {
    /// A queue for a program, if a rule allows it one. It is returned when the address is no longer served.
    ///
    /// # Errors
    /// Why there is none. The program has its port, in any case.
    pub(crate) fn lend_queue(&mut self, owner: Owner, hello: &Hello, to: Address) -> Result<Option<LentQueue>, String> {
        if !self.access.allowance(&owner).is_ok_and(|allowance| allowance.queue) {
            return Ok(None);
        }
        let lent = self.open_queue(hello, to);
        if let Err(why) = &lent
            && self.budgets.has_line(owner.uid, Instant::now())
        {
            tracing::warn!("{owner} has a port and no queue: {why}");
        }
        lent.map(Some)
    }

    fn open_queue(&mut self, hello: &Hello, to: Address) -> Result<LentQueue, String> {
        if !hello.can_use_queue {
            return Err("the program was built without `xdp`, or attached without a queue before".into());
        }
        let wire = self.switch.wire.as_mut().ok_or("there is no wire")?;
        let lent = OnceCell::new();
        wire.control(Command::LendQueue { to, lent: &lent }).map_err(|why| why.to_string())?;
        lent.into_inner().ok_or_else(|| "the wire gave none".into())
    }
}
