//! What a daemon is started with, and what it holds. `serve.rs` is its loop.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use am_wire::EtherType;

use crate::access::Access;
use crate::budget::Budgets;
use crate::listener::{Listener, Watched};
use crate::outage::Outage;
use crate::random::Random;
use crate::switch::Switch;
use crate::visit::Visit;

/// After a restart: how long a program may take to attach again.
pub const KEEP_TIME: Duration = Duration::from_secs(5);

/// The numbers of descriptors that are no port's.
pub(crate) const LISTENER: u64 = 1 << 32;
pub(crate) const WIRE: u64 = LISTENER + 1;
pub(crate) const VISITOR: u64 = LISTENER + 2;
/// The process of port 0's program.
pub(crate) const PROCESSES: u64 = LISTENER + 3;

/// What a daemon is started with.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// The name of the wire's transport; `None` joins the programs of this machine only.
    pub wire: Option<String>,
    /// The socket.
    pub socket: PathBuf,
    /// Its permissions.
    pub mode: u32,
    /// Its group, by number.
    pub group: Option<u32>,
    /// Peers of the wire, as their addresses on it.
    pub peers: Vec<String>,
    /// Who may attach.
    pub access: Access,
    /// The network's EtherTypes.
    pub ethertype: EtherType,
}

impl DaemonOptions {
    /// A daemon without a wire, for this user's programs.
    pub fn new(socket: impl Into<PathBuf>) -> DaemonOptions {
        DaemonOptions {
            wire: None,
            socket: socket.into(),
            mode: 0o600,
            group: None,
            peers: vec![],
            access: Access::default(),
            ethertype: EtherType::DEFAULT,
        }
    }
}

/// A daemon. Dropping it detaches all programs, unless [`leave_state`](Self::leave_state) was called.
pub struct Daemon {
    pub(crate) switch: Switch,
    pub(crate) watched: Watched,
    pub(crate) listener: Listener,
    pub(crate) access: Access,
    pub(crate) random: Random,
    pub(crate) visits: Vec<Visit>,
    pub(crate) budgets: Budgets,
    /// The user that was refused last, and when the log said so.
    pub(crate) refused: Option<(u32, Instant)>,
    /// While the system accepts nobody: when to try again.
    pub(crate) accept_at: Option<Instant>,
    /// Where the search for a free port starts.
    pub(crate) next_port: usize,
    /// The longest frame of a port.
    pub(crate) max_frame: usize,
    /// The description of the wire, for programs and administrators.
    pub(crate) wire: String,
    pub(crate) hears_all: bool,
    /// Why no frames leave or arrive on the wire.
    pub(crate) trouble: String,
    pub(crate) outage: Outage,
    pub(crate) can_wait: bool,
    pub(crate) leaves_state: bool,
    pub(crate) ready: Vec<u64>,
    pub(crate) turns: u32,
    pub(crate) idle_turns: u32,
    pub(crate) next_look: Instant,
}

impl Daemon {
    /// The wire's name and mode, for users.
    pub fn wire(&self) -> &str {
        &self.wire
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // As long as the state is locked, no other daemon makes its socket.
        self.listener.remove();
        if !self.leaves_state {
            self.switch.state.remove();
        }
    }
}
