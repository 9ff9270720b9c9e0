//! The folder of the daemon's socket, held open. Another user may own the folder, and may replace any name in it by a symbolic link or
//! another file at any time. So the daemon looks the folder up once and follows no symbolic link in it. It creates each file in a private
//! folder where only this user can write, sets the owner and the mode there, and then moves the file to its public name.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;

use crate::DaemonError;
use crate::random::Random;

/// The name of a file in its private folder. `ss -xl` shows it.
const NEW: &str = "amd.sock";

/// The device and inode of a file.
pub(crate) type FileId = (u64, u64);

/// The folder of a socket.
#[derive(Debug)]
pub(crate) struct Folder {
    directory: OwnedFd,
    path: PathBuf,
    /// The name of the socket in this folder.
    pub(crate) socket: PathBuf,
}

impl Folder {
    /// Open the folder of this socket.
    pub(crate) fn of(socket: &Path) -> Result<Arc<Folder>, DaemonError> {
        let nameless = || DaemonError::NoName { socket: socket.to_owned() };
        let name = socket.file_name().map(PathBuf::from).ok_or_else(nameless)?;
        let path = match socket.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(&path, flags, Mode::empty()).map_err(|why| match why {
            Errno::NOENT | Errno::NOTDIR => DaemonError::NoDirectory { directory: path.clone() },
            why => DaemonError::Directory { directory: path.clone(), source: why.into() },
        })?;
        Ok(Arc::new(Folder { directory, path, socket: name }))
    }

    /// The user, other than root and this one, who can replace the socket. Programs would trust whatever takes the socket's place.
    pub(crate) fn other_owner(&self) -> Option<String> {
        let folder = rustix::fs::fstat(&self.directory).ok()?;
        let (mode, own) = (Mode::from_raw_mode(folder.st_mode), rustix::process::geteuid().as_raw());
        let path = self.path.display();
        if folder.st_uid != 0 && folder.st_uid != own {
            return Some(format!("{path} is user {}'s", folder.st_uid));
        }
        let is_open = mode.intersects(Mode::WGRP | Mode::WOTH) && !mode.contains(Mode::SVTX);
        is_open.then(|| format!("others may write to {path}, and it is not sticky"))
    }

    /// Open the file with the socket's name, without following a link. `None` if there is none.
    pub(crate) fn look(&self) -> io::Result<Option<OwnedFd>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.directory, &self.socket, flags, Mode::empty()) {
            Ok(file) => Ok(Some(file)),
            Err(Errno::NOENT) => Ok(None),
            Err(why) => Err(why.into()),
        }
    }

    /// Open a file that only this user can read and write, or create it.
    pub(crate) fn open_own(&self, name: &Path) -> io::Result<File> {
        // NONBLOCK and NOCTTY: if another user has put a FIFO or a terminal there, opening it must have no effect.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
        let path = Path::new(&path_of(&self.directory)).join(name);
        Ok(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// The identity of the file with this name.
    pub(crate) fn id_of(&self, name: &Path) -> Option<FileId> {
        rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|file| id(&file))
    }

    /// Remove a name, if this file still has it.
    pub(crate) fn remove(&self, name: &Path, file: FileId) {
        if self.id_of(name) == Some(file) {
            // If this fails, the next daemon finds the file and notices that no daemon serves it.
            let _ = rustix::fs::unlinkat(&self.directory, name, AtFlags::empty());
        }
    }

    /// Create a private folder in this folder: only this user can write there.
    pub(crate) fn private(&self, random: &mut Random) -> io::Result<Private<'_>> {
        let name = PathBuf::from(format!(".amd-{:016x}", random.number()));
        rustix::fs::mkdirat(&self.directory, &name, Mode::RWXU)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(&self.directory, &name, flags, Mode::empty())?;
        let private = Private { folder: self, name, directory };
        let found = rustix::fs::fstat(&private.directory)?;
        let is_own = found.st_uid == rustix::process::geteuid().as_raw() && found.st_mode & 0o077 == 0;
        if is_own { Ok(private) } else { Err(io::Error::other("another user has put a folder in its place")) }
    }
}

/// A folder in which only this user can write; removed when dropped.
#[derive(Debug)]
pub(crate) struct Private<'a> {
    folder: &'a Folder,
    name: PathBuf,
    directory: OwnedFd,
}

impl Private<'_> {
    /// The address at which a socket is bound here. Its path goes through `/proc`, so it fits a socket address however long the folder's path is.
    pub(crate) fn address(&self) -> io::Result<SocketAddrUnix> {
        Ok(SocketAddrUnix::new(Path::new(&path_of(&self.directory)).join(NEW))?)
    }

    /// Set the owner and the mode of the socket.
    pub(crate) fn set(&self, mode: u32, group: Option<u32>) -> io::Result<()> {
        if let Some(group) = group.map(Gid::from_raw) {
            rustix::fs::chownat(&self.directory, NEW, None, Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(rustix::fs::chmodat(&self.directory, NEW, Mode::from_raw_mode(mode as RawMode), AtFlags::empty())?)
    }

    /// Move the socket to its public name in the outer folder. This replaces a file that has the name by then, and follows no link.
    pub(crate) fn publish(&self) -> io::Result<FileId> {
        let file = rustix::fs::statat(&self.directory, NEW, AtFlags::SYMLINK_NOFOLLOW)?;
        rustix::fs::renameat(&self.directory, NEW, &self.folder.directory, &self.folder.socket)?;
        Ok(id(&file))
    }
}

impl Drop for Private<'_> {
    fn drop(&mut self) {
        // The socket has been moved, or was never created. A private folder that cannot be removed does no harm.
        let _ = rustix::fs::unlinkat(&self.directory, NEW, AtFlags::empty());
        let _ = rustix::fs::unlinkat(&self.folder.directory, &self.name, AtFlags::REMOVEDIR);
    }
}

/// A path of an open file. No other user can redirect it, because it names the descriptor.
pub(crate) fn path_of(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Whether this is a socket.
pub(crate) fn is_socket(file: &OwnedFd) -> bool {
    rustix::fs::fstat(file).is_ok_and(|file| FileType::from_raw_mode(file.st_mode) == FileType::Socket)
}

fn id(file: &Stat) -> FileId {
    (file.st_dev, file.st_ino)
}
