use std::fmt;
use std::os::fd::AsFd;

use aya::include_bytes_aligned;
use aya::maps::{MapData, XskMap};

use crate::object::{Object, set_socket};
use crate::{AttachError, AttachMode, Attachment, LoadError, SocketError};

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/raw.o"));

/// Bare AF_XDP, for comparison: every frame of one EtherType goes to the socket of the queue on which it arrived.
pub struct Raw {
    object: Object,
    sockets: XskMap<MapData>,
}

impl Raw {
    /// Load the program into the kernel.
    ///
    /// # Errors
    /// What the kernel lacks or refuses, and what to do about it.
    pub fn load(ethertype: u16) -> Result<Raw, LoadError> {
        let mut object = Object::load(OBJECT, "raw", Some(("ethertype", (&ethertype.to_be_bytes()).into())))?;
        Ok(Raw { sockets: object.map("sockets")?, object })
    }

    /// Put the program on an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// What is in the way, and how to remove it.
    pub fn attach(&mut self, interface: &str, mode: AttachMode) -> Result<Attachment, AttachError> {
        self.object.attach(interface, mode)
    }

    /// Set the AF_XDP socket that is bound to a queue.
    ///
    /// # Errors
    /// [`SocketError::NoSuchIndex`] beyond 64 queues.
    pub fn set_socket(&mut self, queue: u32, socket: &impl AsFd) -> Result<(), SocketError> {
        let count = self.sockets.len();
        if queue >= count {
            return Err(SocketError::NoSuchIndex { index: queue, count });
        }
        set_socket(&mut self.sockets, queue, socket)
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").finish_non_exhaustive()
    }
}
