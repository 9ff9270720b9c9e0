//! The options of `table2`.

use super::options::{HostsArg, Options};
use super::topology::DEFAULT_MTU;
use super::{Table2Args, Task, usage};
use crate::cores::CoresArg;
use crate::error::Error;

impl Options {
    /// It makes its own cable: kernel sockets and bare frames share it.
    pub(super) fn table2(&self, args: &Table2Args) -> Result<Task, Error> {
        if self.peer.is_some() || self.serve || self.hosts.is_some_and(|hosts| hosts != HostsArg::Veth) {
            return Err(usage("table2 runs on a cable of its own: omit --hosts, --peer and --serve"));
        }
        if !self.driver.is_empty() || !self.size.is_empty() || self.coalesce.is_some() {
            return Err(usage("table2 has its own rows and sizes: omit --driver, --size and --coalesce"));
        }
        if matches!(self.cores, Some(CoresArg::One(_))) {
            return Err(usage("table2 runs both sides on this machine: give --cores A,B, or --cores none"));
        }
        self.no_on()?;
        Ok(Task::Table2(self.mtu.unwrap_or(DEFAULT_MTU), args.wire))
    }
}
