//! The files of a link: the segment, and a FIFO for each member.
//!
//! Names end in what they are, and the number of a FIFO is one part of its name, so no two links share a file.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{Mode, fstatat};
use nix::unistd::{Uid, UnlinkatFlags, unlinkat};

use crate::OpenError;
use crate::errors::system;

/// A directory and a name in it.
#[derive(Debug)]
pub(crate) struct Place {
    dir: OwnedFd,
    path: PathBuf,
    name: String,
    file: CString,
}

const LONGEST: usize = 64;

/// How the segment's file is opened: no link is followed, and nothing waited for.
const FLAGS: OFlag = OFlag::O_RDWR.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC).union(OFlag::O_NONBLOCK);

impl Place {
    /// # Errors
    /// [`OpenError::Name`], [`OpenError::Directory`].
    pub(crate) fn new(dir: &Path, name: &str) -> Result<Place, OpenError> {
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !(1..=LONGEST).contains(&name.len()) || !name.bytes().all(fine) {
            return Err(OpenError::Name(name.into()));
        }
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let opened = open(dir, flags, Mode::empty());
        let opened = opened.map_err(|why| match why {
            Errno::EACCES | Errno::EPERM => OpenError::Rights { dir: dir.into(), source: why.into() },
            Errno::EMFILE | Errno::ENFILE => system(format!("cannot open {}", dir.display()))(why),
            _ => OpenError::Directory { dir: dir.into(), source: why.into() },
        })?;
        let (path, file) = (dir.into(), c_name(format!("am-{name}.shm")));
        Ok(Place { dir: opened, path, name: name.into(), file })
    }

    /// Another name in the same directory; `None` for our own, and for what is no name.
    pub(crate) fn beside(&self, name: &str) -> Option<Place> {
        (name != self.name).then(|| Place::new(&self.path, name).ok())?
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.path
    }

    pub(crate) fn dir_fd(&self) -> &OwnedFd {
        &self.dir
    }

    /// For messages.
    pub(crate) fn path(&self) -> PathBuf {
        self.path.join(format!("am-{}.shm", self.name))
    }

    /// The FIFO of a member.
    pub(crate) fn fifo(&self, member: usize) -> CString {
        c_name(format!("am-{}.{member}.wake", self.name))
    }

    /// The segment's file, made where there is none.
    ///
    /// # Errors
    /// [`OpenError::Denied`], [`OpenError::NoFile`], [`OpenError::Stranger`], and what the system has.
    pub(crate) fn open_or_make(&self, mode: u32, trusted: Option<u32>) -> Result<File, OpenError> {
        // It may come and go between the two.
        for _ in 0..100 {
            match openat(&self.dir, self.file.as_c_str(), FLAGS, Mode::empty()) {
                Err(Errno::ENOENT) => (),
                opened => return self.judge(opened).and_then(|file| self.of_one_we_trust(file, trusted)),
            }
            match openat(&self.dir, self.file.as_c_str(), FLAGS | OFlag::O_CREAT | OFlag::O_EXCL, Mode::S_IRWXU) {
                Ok(made) => {
                    let made = File::from(made);
                    // Not through the process's umask.
                    let set = made.set_permissions(std::fs::Permissions::from_mode(mode));
                    return set.map(|()| made).map_err(system("cannot set the permissions of the segment"));
                }
                Err(Errno::EEXIST) => (),
                Err(why) => return Err(self.no_file(why)),
            }
        }
        Err(self.no_file(Errno::EBUSY))
    }

    /// Whoever owns the file can cut it short, and end all that have it mapped: that is ourselves, root,
    /// or a user whom we were told to trust. Who comes first could be anybody.
    fn of_one_we_trust(&self, file: File, trusted: Option<u32>) -> Result<File, OpenError> {
        let owner = file.metadata().map_err(system("cannot ask about the segment"))?.uid();
        let is_trusted = owner == 0 || owner == Uid::effective().as_raw() || Some(owner) == trusted;
        if is_trusted { Ok(file) } else { Err(OpenError::Stranger { path: self.path(), owner }) }
    }

    /// The segment's file, where there is one.
    pub(crate) fn open(&self) -> Result<File, OpenError> {
        self.judge(openat(&self.dir, self.file.as_c_str(), FLAGS, Mode::empty()))
    }

    fn no_file(&self, why: Errno) -> OpenError {
        match why {
            Errno::ENOSPC => OpenError::Space { dir: self.path.clone(), bytes: 1, source: why.into() },
            // A directory that is no place for files says that there is none of this name.
            Errno::EACCES | Errno::EPERM | Errno::EROFS | Errno::ENOENT => {
                OpenError::Rights { dir: self.path.clone(), source: why.into() }
            }
            _ => system(format!("cannot open {}", self.path().display()))(why),
        }
    }

    fn judge(&self, opened: nix::Result<OwnedFd>) -> Result<File, OpenError> {
        let path = self.path();
        let file = match opened {
            Ok(file) => File::from(file),
            Err(Errno::ELOOP | Errno::EISDIR | Errno::ENXIO) => return Err(OpenError::NoFile { path }),
            Err(Errno::EACCES | Errno::EPERM) => {
                let status = fstatat(&self.dir, self.file.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
                return Err(OpenError::Denied { path, owner: status.map_or(u32::MAX, |status| status.st_uid) });
            }
            Err(why) => return Err(self.no_file(why)),
        };
        let is_file = file.metadata().map(|data| data.is_file()).map_err(system("cannot ask about the segment"))?;
        if is_file { Ok(file) } else { Err(OpenError::NoFile { path }) }
    }

    /// Whether the name still leads to this file: it may have been removed while we waited for its lock.
    pub(crate) fn leads_to(&self, file: &File) -> io::Result<bool> {
        let ours = file.metadata()?;
        match fstatat(&self.dir, self.file.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(there) => Ok(there.st_ino == ours.ino() && there.st_dev == ours.dev()),
            Err(Errno::ENOENT) => Ok(false),
            Err(why) => Err(why.into()),
        }
    }

    /// The segment is nobody's any more.
    pub(crate) fn remove(&self) {
        // Whoever comes next tries again; there is nobody to tell.
        let _ = unlinkat(&self.dir, self.file.as_c_str(), UnlinkatFlags::NoRemoveDir);
    }

    /// A member's FIFO is nobody's any more.
    pub(crate) fn remove_fifo(&self, member: usize) {
        let _ = unlinkat(&self.dir, self.fifo(member).as_c_str(), UnlinkatFlags::NoRemoveDir);
    }
}

fn c_name(name: String) -> CString {
    // The name was checked: there is no zero in it.
    CString::new(name).unwrap_or_default()
}
