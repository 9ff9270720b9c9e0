use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard};

use am_wire::bounce::RejectTemplate;
use am_wire::group::JoinedGroups;
use am_wire::{Address, Flow, Reason};
use aya::include_bytes_aligned;
use aya::maps::{HashMap, MapData, PerCpuArray, XskMap};

use crate::copies::Copies;
use crate::counters;
use crate::error::root_cause;
use crate::object::{Object, set_socket};
use crate::share::{self, Program};
use crate::stamps::StampTables;
use crate::table::{self, Table};
use crate::{
    AttachError, AttachMode, Attachment, Config, CopyError, Counters, CountersError, Kernel, LoadError, ProgramStamps,
    SocketError,
};

pub(crate) static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/steer.o"));

/// The loaded steering program. [`Steer::attach`] starts it.
///
/// All methods but `attach` take `&self`: share it between the threads that own its sockets.
pub struct Steer {
    pub(crate) object: Object,
    table: Table,
    counters: PerCpuArray<MapData, u64>,
    sockets: Mutex<XskMap<MapData>>,
    added: Mutex<HashMap<MapData, u64, u32>>,
    groups: Mutex<Groups>,
    stamps: Arc<StampTables>,
    copies: Copies,
}

/// The joined groups, and the program's table of them.
struct Groups {
    joined: JoinedGroups,
    map: HashMap<MapData, u64, u32>,
}

impl Steer {
    /// The largest index of a socket. A flow's entry has the index plus one in a byte.
    pub const LAST_SOCKET: u8 = table::LAST_SOCKET;

    /// Load the program into the kernel. No flow exists yet.
    ///
    /// # Errors
    /// What the kernel lacks or refuses, and what to do about it.
    pub fn load(config: &Config) -> Result<Steer, LoadError> {
        Steer::load_program(OBJECT, "steer", config)
    }

    pub(crate) fn load_program(object: &[u8], program: &str, config: &Config) -> Result<Steer, LoadError> {
        let mut object = Object::load(object, program, Some(("config", (&config.to_bytes()).into())))?;
        Ok(Steer {
            table: Table::of(&mut object, config)?,
            counters: object.map("counts")?,
            sockets: Mutex::new(object.map("sockets")?),
            added: Mutex::new(object.map("added")?),
            groups: Mutex::new(Groups { joined: JoinedGroups::new(), map: object.map("groups")? }),
            stamps: Arc::new(StampTables::of(&mut object, "stamps")?),
            copies: Copies::of(&mut object)?,
            object,
        })
    }

    /// Put the program on an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// What is in the way, and how to remove it.
    pub fn attach(&mut self, interface: &str, mode: AttachMode) -> Result<Attachment, AttachError> {
        self.object.attach(interface, mode)
    }

    /// For [`NodeSwitch`](crate::NodeSwitch), which hands frames to it.
    ///
    /// # Errors
    /// The process has too many files open.
    pub fn program(&mut self) -> Result<Program, LoadError> {
        let fd = self.object.program()?.fd().map_err(|error| LoadError::Object(error.to_string()))?;
        fd.try_clone().map(Program).map_err(|_| LoadError::OpenFiles)
    }

    /// Set the AF_XDP socket with this index, and its receive queue. A closed socket leaves the table by itself.
    ///
    /// # Errors
    /// [`SocketError::NoSuchIndex`] beyond [`Steer::LAST_SOCKET`],
    /// [`SocketError::NoSuchQueue`] beyond 255.
    pub fn set_socket(&self, index: u8, queue: u32, socket: &impl AsFd) -> Result<(), SocketError> {
        if index > Self::LAST_SOCKET {
            return Err(SocketError::NoSuchIndex { index: index.into(), count: u32::from(Self::LAST_SOCKET) + 1 });
        }
        self.table.set_queue(index, queue.try_into().map_err(|_| SocketError::NoSuchQueue(queue))?);
        let mut sockets = self.sockets.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // By the number in the flows' entries.
        set_socket(&mut sockets, u32::from(index) + 1, socket)
    }

    /// Steer all frames to this address to the socket of control frames, whatever their flow: the address of a node behind this one.
    /// The program has room for [`AddressSet::MAX`](am_wire::AddressSet::MAX) of them.
    ///
    /// # Errors
    /// The kernel's: there is no room, or no memory.
    pub fn add_address(&self, address: Address) -> io::Result<()> {
        let mut added = self.added.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        added.insert(share::key(address), 0, 0).map_err(|error| root_cause(&error))
    }

    /// Steer the frames to an added address that arrive on a queue to a socket that is bound to this queue: another process has
    /// it. `index` is of no other socket. Frames that arrive on other queues go where they went before.
    ///
    /// # Errors
    /// As [`Steer::set_socket`]; the kernel's.
    pub fn lend(&self, address: Address, index: u8, queue: u8, socket: &impl AsFd) -> io::Result<()> {
        self.set_socket(index, queue.into(), socket).map_err(io::Error::other)?;
        let mut added = self.added.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let entry = (u32::from(index) + 1) | u32::from(queue) << 8;
        added.insert(share::key(address), entry, 0).map_err(|error| root_cause(&error))
    }

    /// No longer steer frames to this address.
    pub fn remove_address(&self, address: Address) {
        let mut added = self.added.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // A missing entry needs no removal.
        let _ = added.remove(&share::key(address));
    }

    /// Steer a flow to the socket with this index, or to none: then its frames are dropped and counted. This is one
    /// store into shared memory. A larger index than [`Steer::LAST_SOCKET`] counts as that one. [`Flow::NODE`] stays
    /// with [`Config::node_socket`].
    pub fn set_flow(&self, flow: Flow, socket: Option<u8>) {
        self.table.set_flow(flow, socket);
    }

    /// Steer the frames of a group to the socket with this index, of which the queue is set. Returns the group's place, or `None` if the node has joined
    /// [as many as it can](JoinedGroups::MAX). Frames to be stamped go there too, until the table of [`Steer::stamps`] is opened for the group.
    ///
    /// # Errors
    /// The kernel's: it has no memory.
    pub fn join_group(&self, group: u64, socket: u8) -> io::Result<Option<usize>> {
        let mut groups = self.groups();
        let Some(place) = groups.joined.join(group, socket) else { return Ok(None) };
        let entry = u32::from(self.table.entry(socket)) | (place as u32) << 16;
        if let Err(error) = groups.map.insert(group.to_be(), entry, 0) {
            groups.joined.leave(group);
            return Err(root_cause(&error));
        }
        Ok(Some(place))
    }

    /// Whether a group was joined.
    pub fn has_joined(&self, group: u64) -> bool {
        self.groups().joined.find(group).is_some()
    }

    /// Drop and count the frames of this group from now on. Stamping ends too.
    pub fn leave_group(&self, group: u64) {
        let mut groups = self.groups();
        if let Some(place) = groups.joined.leave(group) {
            // A missing entry needs no removal.
            let _ = groups.map.remove(&group.to_be());
            self.stamps[place].close();
        }
    }

    /// The table by which the program stamps the frames of a group. `None` if this kernel's program cannot, or if the group was not joined.
    pub fn stamps(&self, group: u64) -> Option<ProgramStamps> {
        let (place, _) = self.groups().joined.find(group)?;
        Kernel::running().has_sequencer().then(|| ProgramStamps { tables: self.stamps.clone(), place })
    }

    /// Send this number of copies of each frame of a group that the program stamps, while its table names [their
    /// receivers](am_wire::stamp::Stamps::copies). 0 ends that, and says whether it is possible. One group can have it. `interface` is the
    /// index of the interface where the program is attached.
    ///
    /// # Errors
    /// [`CopyError`]: the group has no copies then.
    pub fn set_copies(&mut self, group: u64, copies: usize, interface: u32, mode: AttachMode) -> Result<(), CopyError> {
        self.copies.set(&mut self.object, group, copies, interface, mode)
    }

    /// The program is attached to the interface with this index now: send the copies there.
    ///
    /// # Errors
    /// [`CopyError::Kernel`].
    pub fn move_copies(&mut self, interface: u32) -> Result<(), CopyError> {
        self.copies.follow(&mut self.object, interface)
    }

    /// Send no copies for this group any more. If there were none, this is no error.
    pub fn end_copies(&mut self, group: u64) {
        self.copies.end(group);
    }

    fn groups(&self) -> MutexGuard<'_, Groups> {
        self.groups.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Set the reject template of a flow, for the time when the node is [full](Steer::set_rx_full). Without one, its
    /// requests go to the socket.
    pub fn set_reject_template(&self, flow: Flow, back: Option<&RejectTemplate>) {
        self.table.set_reject_template(flow, back);
    }

    /// Set whether the node has no room for requests. While it has none, the program rejects them.
    pub fn set_rx_full(&self, is_full: bool) {
        self.table.set_rx_full(is_full);
    }

    /// The last unknown flow of a frame, since the previous call. One load if there was none.
    pub fn unknown_flow(&self) -> Option<Flow> {
        self.table.take_unknown_flow()
    }

    /// The counters of all frames so far. One system call a counter.
    ///
    /// # Errors
    /// The kernel's; no cause is known.
    pub fn counters(&self) -> Result<Counters, CountersError> {
        Counters::read(&self.counters).map_err(|error| CountersError(root_cause(&error)))
    }

    /// Frames that were dropped because they are malformed. One system call.
    ///
    /// # Errors
    /// As [`counters`](Self::counters).
    pub fn dropped(&self, why: Reason) -> Result<u64, CountersError> {
        self.counter(counters::dropped(why))
    }

    /// Frames that were dropped because they arrived on another queue than that of their socket, where the kernel would lose them
    /// without a count. `ethtool -N` moves them. One system call.
    ///
    /// # Errors
    /// As [`counters`](Self::counters).
    pub fn wrong_queue(&self) -> Result<u64, CountersError> {
        self.counter(counters::WRONG_QUEUE)
    }

    fn counter(&self, number: usize) -> Result<u64, CountersError> {
        counters::read(&self.counters, number).map_err(|error| CountersError(root_cause(&error)))
    }
}

impl fmt::Debug for Steer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steer").field("table", &self.table).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_may_share_it() {
        fn shared<T: Send + Sync>() {}
        shared::<Steer>();
    }
}
