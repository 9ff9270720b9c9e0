//! The options of `wakeup`.

use super::{Options, Task, usage};
use crate::error::Error;

impl Options {
    pub(super) fn wakeup(&self) -> Result<Task, Error> {
        let has_sides =
            self.hosts.is_some() || self.serve || self.peer.is_some() || self.on.is_some() || self.name.is_some();
        let has_wire = self.mtu.is_some() || self.cores.is_some() || self.xdp.is_some() || self.framing.is_some();
        let has_messages = !self.driver.is_empty() || !self.size.is_empty() || self.coalesce.is_some();
        if has_sides || has_wire || has_messages || self.time.is_some() || self.warm_up.is_some() {
            return Err(usage(
                "wakeup has threads of this process for its sides: it takes --rounds, --json and --save only",
            ));
        }
        Ok(Task::Wakeup)
    }
}
