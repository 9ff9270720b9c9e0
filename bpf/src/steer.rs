use std::fmt;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Mutex;

use aya::include_bytes_aligned;
use aya::maps::{MapData, PerCpuArray, XskMap};
use wire::Flow;

use crate::error::root_cause;
use crate::object::{Name, Object};
use crate::table::{SOCKETS, Table};
use crate::{AttachError, AttachMode, Attachment, Config, Counters, CountersError, LoadError, SocketError};

pub(crate) static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/steer.o"));
const STEER: Name = Name { frags: "steer", linear: "steer_linear" };

/// The steering program, loaded. It steers where it is attached: [`Steer::attach`].
///
/// All but `attach` needs only `&self`: share it between the threads that own
/// its sockets.
pub struct Steer {
    object: Object,
    table: Table,
    counters: PerCpuArray<MapData, Counters>,
    sockets: Mutex<XskMap<MapData>>,
}

impl Steer {
    /// The largest index that a socket can have: a flow's entry is its
    /// socket's index plus one, in a byte.
    pub const LAST_SOCKET: u8 = u8::MAX - 1;

    /// Load the program into the kernel. No flow exists yet.
    ///
    /// # Errors
    /// What the kernel lacks or refuses, and what to do about it.
    pub fn load(config: &Config) -> Result<Steer, LoadError> {
        let mut object = Object::load(OBJECT, &STEER, ("config", &config.to_bytes()))?;
        Ok(Steer {
            table: table(&mut object)?,
            counters: object.map("counts")?,
            sockets: Mutex::new(object.sockets()?),
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

    /// Say which AF_XDP socket has this index, and which receive queue it is
    /// bound to. It leaves the table by itself when it is closed.
    ///
    /// # Errors
    /// [`SocketError::NoSuchIndex`] beyond [`Steer::LAST_SOCKET`].
    pub fn set_socket(&self, index: u8, queue: u32, socket: &impl AsFd) -> Result<(), SocketError> {
        if index > Self::LAST_SOCKET {
            return Err(SocketError::NoSuchIndex { index: index.into(), count: SOCKETS as u32 - 1 });
        }
        self.table.set_queue(index, queue);
        let mut sockets = self.sockets.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        sockets.set(index.into(), socket.as_fd().as_raw_fd(), 0).map_err(|error| SocketError::new(root_cause(&error)))
    }

    /// Steer a flow to the socket with this index, or nowhere: then its frames
    /// are dropped and counted. One store into shared memory. An index beyond
    /// [`Steer::LAST_SOCKET`] is taken for that one.
    pub fn set_flow(&self, flow: Flow, socket: Option<u8>) {
        self.table.set_flow(flow, socket.map(|index| index.min(Self::LAST_SOCKET)));
    }

    /// What happened to all frames so far. A system call.
    ///
    /// # Errors
    /// The kernel's, for which no cause is known.
    pub fn counters(&self) -> Result<Counters, CountersError> {
        let parts = self.counters.get(&0, 0).map_err(|error| CountersError(root_cause(&error)))?;
        Ok(Counters::sum(parts.iter()))
    }
}

impl fmt::Debug for Steer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steer").field("table", &self.table).finish_non_exhaustive()
    }
}

/// The steering table of a loaded object.
pub(crate) fn table(object: &mut Object) -> Result<Table, LoadError> {
    let map = object.array("tables")?;
    let size = map.info().map_err(|error| LoadError::Object(error.to_string()))?.value_size();
    if size as usize != Table::BYTES {
        return Err(LoadError::Object(format!("its table has {size} bytes, not {}", Table::BYTES)));
    }
    Table::map(map.fd()).map_err(|error| LoadError::Object(format!("mapping its table: {error}")))
}
