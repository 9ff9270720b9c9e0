//! The daemon's socket, and the descriptors that it waits on.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
};

use crate::DaemonError;
use crate::errors::system;
use crate::folder::{FileId, Folder, is_socket, path_of};
use crate::member::Owner;
use crate::random::Random;

/// Programs that connect at once.
const BACKLOG: i32 = 128;

/// The most bytes of a socket's path (`sun_path`, with a 0 behind it).
const MAX_PATH: usize = 107;

/// The socket; removed when dropped, unless another one has its path by then.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    folder: Arc<Folder>,
    file: FileId,
}

impl Listener {
    /// Make the socket at this path, which is in this folder. The caller has made sure that no other daemon has it.
    pub(crate) fn new(
        path: &Path,
        folder: Arc<Folder>,
        (mode, group): (u32, Option<u32>),
        random: &mut Random,
    ) -> Result<Listener, DaemonError> {
        let failed = |source: io::Error| DaemonError::Socket { socket: path.to_owned(), source };
        if let Some(why) = folder.other_owner() {
            let socket = path.display();
            tracing::warn!("others can put a socket of their own at {socket}, and programs would trust it: {why}");
        }
        match folder.look().map_err(failed)? {
            Some(found) if !is_socket(&found) => return Err(DaemonError::NoSocket { socket: path.to_owned() }),
            Some(found) if is_served(&found)? => return Err(DaemonError::Served { socket: path.to_owned() }),
            _ => (),
        }
        let (socket, private) = (new_socket()?, folder.private(random).map_err(failed)?);
        bind(&socket, &private.address().map_err(failed)?).map_err(|why| failed(why.into()))?;
        private.set(mode, group).map_err(|source| DaemonError::Permissions {
            socket: path.to_owned(),
            mode,
            group,
            source,
        })?;
        listen(&socket, BACKLOG).map_err(system("cannot listen on the socket"))?;
        let file = private.publish().map_err(failed)?;
        drop(private);
        Ok(Listener { socket, folder, file })
    }

    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Accept a connection, and ask the kernel whose it is. `None` if there is none.
    pub(crate) fn accept(&self) -> io::Result<Option<(OwnedFd, Owner)>> {
        let socket = match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            accepted => accepted?,
        };
        let peer = getsockopt(&socket, PeerCredentials)?;
        let owner = Owner { uid: peer.uid(), gid: peer.gid(), pid: peer.pid() };
        Ok(Some((socket, owner)))
    }

    /// Remove the socket's file, unless it is another's.
    pub(crate) fn remove(&self) {
        self.folder.remove(&self.folder.socket, self.file);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.remove();
    }
}

fn new_socket() -> Result<OwnedFd, DaemonError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(system("cannot make a socket"))
}

/// A path as the address of a socket.
pub(crate) fn address_of(path: &Path) -> Result<SocketAddrUnix, DaemonError> {
    SocketAddrUnix::new(path).map_err(|_| DaemonError::LongPath { socket: path.to_owned(), most: MAX_PATH })
}

/// Whether a program has this socket. A killed one leaves a socket that refuses connections.
fn is_served(found: &OwnedFd) -> Result<bool, DaemonError> {
    let address = SocketAddrUnix::new(path_of(found)).map_err(system("cannot ask whether the socket is served"))?;
    // Any other error means that a program may serve it: another type of socket, a full queue, no permission.
    Ok(connect(&new_socket()?, &address) != Err(Errno::CONNREFUSED))
}

/// The descriptors that the daemon waits on, each with a number.
#[derive(Debug)]
pub(crate) struct Watched(OwnedFd);

impl Watched {
    pub(crate) fn new() -> io::Result<Watched> {
        Ok(Watched(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Watch a descriptor until it is closed.
    pub(crate) fn add(&self, descriptor: impl AsFd, number: u64) -> io::Result<()> {
        epoll::add(&self.0, descriptor, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
        Ok(())
    }

    /// Give another number to a descriptor.
    pub(crate) fn renumber(&self, descriptor: impl AsFd, number: u64) -> io::Result<()> {
        epoll::modify(&self.0, descriptor, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
        Ok(())
    }

    /// Ignore a descriptor for a while, or not any more.
    pub(crate) fn mute(&self, descriptor: impl AsFd, number: u64, is_mute: bool) {
        let events = if is_mute { epoll::EventFlags::empty() } else { epoll::EventFlags::IN };
        // It cannot fail for a descriptor that is watched.
        let _ = epoll::modify(&self.0, descriptor, epoll::EventData::new_u64(number), events);
    }

    /// The numbers of descriptors that are readable, after at most this time.
    pub(crate) fn wait(&self, timeout: Duration, ready: &mut Vec<u64>) {
        ready.clear();
        let mut events = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; 64];
        let timeout = Timespec::try_from(timeout).ok();
        // A signal ends the wait early, and the daemon looks around.
        if let Ok((events, _)) = epoll::wait(&self.0, &mut events, timeout.as_ref()) {
            ready.extend(events.iter().map(|event| event.data.u64()));
        }
    }
}
