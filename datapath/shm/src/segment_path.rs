//! The files of a link: the segment, and a FIFO for each member.
//!
//! The segment is `am-NAME.shm`, and the FIFO of a member is `am-NAME.NUMBER.wake`. So no two links share a file.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use am_ring::own::{Own, high};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{Mode, fstatat};
use nix::unistd::{Uid, UnlinkatFlags, unlinkat};

use crate::ShmOpenError;
use crate::errors::system;

/// A directory and a name in it.
#[derive(Debug)]
pub(crate) struct SegmentPath {
    dir: Own,
    path: PathBuf,
    name: String,
    file: CString,
}

const MAX_NAME: usize = 64;

/// Flags for opening the segment's file: symbolic links are not followed, and the call does not wait.
const FLAGS: OFlag = OFlag::O_RDWR.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC).union(OFlag::O_NONBLOCK);

impl SegmentPath {
    /// # Errors
    /// [`ShmOpenError::Name`], [`ShmOpenError::Directory`].
    pub(crate) fn new(dir: &Path, name: &str) -> Result<SegmentPath, ShmOpenError> {
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !(1..=MAX_NAME).contains(&name.len()) || !name.bytes().all(fine) {
            return Err(ShmOpenError::Name(name.into()));
        }
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let opened = open(dir, flags, Mode::empty());
        let opened = opened.map_err(|why| match why {
            Errno::EACCES | Errno::EPERM => ShmOpenError::Rights { dir: dir.into(), source: why.into() },
            Errno::EMFILE | Errno::ENFILE => system(format!("cannot open {}", dir.display()))(why),
            _ => ShmOpenError::Directory { dir: dir.into(), source: why.into() },
        })?;
        let (path, file) = (dir.into(), c_name(format!("am-{name}.shm")));
        Ok(SegmentPath { dir: high(opened).into(), path, name: name.into(), file })
    }

    /// The path of another link in the same directory. `None` for this link's own name, and for an invalid one.
    pub(crate) fn sibling(&self, name: &str) -> Option<SegmentPath> {
        (name != self.name).then(|| SegmentPath::new(&self.path, name).ok())?
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.path
    }

    /// Whether the program has closed the directory.
    pub(crate) fn is_lost(&self) -> bool {
        self.dir.is_lost()
    }

    pub(crate) fn dir_fd(&self) -> &OwnedFd {
        &self.dir
    }

    /// The segment's path, for messages.
    pub(crate) fn path(&self) -> PathBuf {
        self.path.join(format!("am-{}.shm", self.name))
    }

    /// The name of a member's FIFO.
    pub(crate) fn fifo_name(&self, member: usize) -> CString {
        c_name(format!("am-{}.{member}.wake", self.name))
    }

    /// Open the segment's file, or make it.
    ///
    /// # Errors
    /// [`ShmOpenError::Denied`], [`ShmOpenError::NoFile`], [`ShmOpenError::Stranger`], and errors of the system.
    pub(crate) fn open_or_make(&self, mode: u32, trusted: Option<u32>) -> Result<File, ShmOpenError> {
        // The file may be made or removed between the two calls.
        for _ in 0..100 {
            match openat(&self.dir, self.file.as_c_str(), FLAGS, Mode::empty()) {
                Err(Errno::ENOENT) => (),
                opened => {
                    // Anybody could have made the file first. Its owner can truncate it, and so kill all processes that
                    // map it. So the owner must be this user, root, or the user that the options trust.
                    let file = self.check_opened(opened)?;
                    let owner = file.metadata().map_err(system("cannot read the segment's metadata"))?.uid();
                    let is_trusted = owner == 0 || owner == Uid::effective().as_raw() || Some(owner) == trusted;
                    return if is_trusted {
                        Ok(file)
                    } else {
                        Err(ShmOpenError::Stranger { path: self.path(), owner })
                    };
                }
            }
            match openat(&self.dir, self.file.as_c_str(), FLAGS | OFlag::O_CREAT | OFlag::O_EXCL, Mode::S_IRWXU) {
                Ok(made) => {
                    let made = File::from(made);
                    // Set explicitly, because the umask would change the mode.
                    let set = made.set_permissions(std::fs::Permissions::from_mode(mode));
                    return set.map(|()| made).map_err(system("cannot set the permissions of the segment"));
                }
                Err(Errno::EEXIST) => (),
                Err(why) => return Err(self.open_error(why)),
            }
        }
        Err(self.open_error(Errno::EBUSY))
    }

    /// Open the segment's file, if it exists.
    pub(crate) fn open(&self) -> Result<File, ShmOpenError> {
        self.check_opened(openat(&self.dir, self.file.as_c_str(), FLAGS, Mode::empty()))
    }

    fn open_error(&self, why: Errno) -> ShmOpenError {
        match why {
            Errno::ENOSPC | Errno::EDQUOT => ShmOpenError::Files { dir: self.path.clone(), source: why.into() },
            // For a directory that cannot hold files, the system says that the file does not exist.
            Errno::EACCES | Errno::EPERM | Errno::EROFS | Errno::ENOENT => {
                ShmOpenError::Rights { dir: self.path.clone(), source: why.into() }
            }
            _ => system(format!("cannot open {}", self.path().display()))(why),
        }
    }

    /// Why the FIFO that wakes a member cannot be made.
    pub(crate) fn fifo_error(&self, why: io::Error) -> ShmOpenError {
        match why.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOSPC | Errno::EDQUOT) => ShmOpenError::Files { dir: self.path.clone(), source: why },
            _ => system("cannot make the FIFO that wakes a member")(why),
        }
    }

    fn check_opened(&self, opened: nix::Result<OwnedFd>) -> Result<File, ShmOpenError> {
        let path = self.path();
        let file = match opened {
            Ok(file) => File::from(file),
            Err(Errno::ELOOP | Errno::EISDIR | Errno::ENXIO) => return Err(ShmOpenError::NoFile { path }),
            Err(Errno::EACCES | Errno::EPERM) => {
                let status = fstatat(&self.dir, self.file.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
                return Err(ShmOpenError::Denied { path, owner: status.map_or(u32::MAX, |status| status.st_uid) });
            }
            Err(why) => return Err(self.open_error(why)),
        };
        let is_file =
            file.metadata().map(|data| data.is_file()).map_err(system("cannot read the segment's metadata"))?;
        if is_file { Ok(file) } else { Err(ShmOpenError::NoFile { path }) }
    }

    /// Whether the name still refers to this file. It may have been removed while this process waited for its lock.
    pub(crate) fn refers_to(&self, file: &File) -> io::Result<bool> {
        let ours = file.metadata()?;
        match fstatat(&self.dir, self.file.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(there) => Ok(there.st_ino == ours.ino() && there.st_dev == ours.dev()),
            Err(Errno::ENOENT) => Ok(false),
            Err(why) => Err(why.into()),
        }
    }

    /// Remove the segment's file.
    pub(crate) fn remove(&self) {
        // On an error the next process tries again.
        let _ = unlinkat(&self.dir, self.file.as_c_str(), UnlinkatFlags::NoRemoveDir);
    }

    /// Remove a member's FIFO.
    pub(crate) fn remove_fifo(&self, member: usize) {
        let _ = unlinkat(&self.dir, self.fifo_name(member).as_c_str(), UnlinkatFlags::NoRemoveDir);
    }
}

fn c_name(name: String) -> CString {
    // The name was checked: there is no zero in it.
    CString::new(name).unwrap_or_default()
}
