//! A daemon between server and clients.

use am_daemon::{Daemon, DaemonOptions};

use crate::Error;
use crate::process::{Leave, Place};

/// Relay frames until `leave` is set. The next daemon takes over this one's state.
pub(crate) fn run(place: &Place, leave: &Leave) -> Result<(), Error> {
    let mut options = DaemonOptions::new(&place.on);
    options.wire = Some(place.name.clone());
    let mut daemon = Daemon::open(options)?;
    daemon.run(leave);
    daemon.leave_state();
    Ok(())
}
