//! Why a segment could not be opened, and what to do about it.

use std::io;
use std::path::PathBuf;

use am_ring::LayoutError;
use am_transport::memory::NoMemory;
use nix::errno::Errno;

use crate::options::{MAX_MEMBERS, ShmOptionsError};

/// Why a segment could not be opened. A failed attempt leaves nothing behind.
#[derive(thiserror::Error)]
pub enum ShmOpenError {
    /// Invalid options.
    #[error(transparent)]
    Options(#[from] ShmOptionsError),
    /// The name of the link is invalid.
    #[error("`{0}` is not a valid name: use 1 to 64 letters, digits, `.`, `_` and `-`, as in `shm:room1`")]
    Name(String),
    /// The directory cannot be opened.
    #[error("no directory {}: {source}; name another with `dir=`, or mount one: `mount -t tmpfs none {}`", dir.display(), dir.display())]
    Directory {
        /// As it was named.
        dir: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// No file can be made in the directory.
    #[error(
        "no file can be made in {}: {source}; name another directory with `dir=`, or have its owner let this user write there",
        dir.display()
    )]
    Rights {
        /// As it was named.
        dir: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The process or the system has no descriptor left.
    #[error(
        "{what}: {source}: each link takes a few descriptors; `ulimit -n` says how many a process may have, and raises it"
    )]
    Descriptors {
        /// What was tried.
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// The process may not map that much memory.
    #[error(
        "the {bytes} bytes of the segment cannot be mapped in this process: {source}; `ulimit -v` shows the limit, a smaller \
         `members=` or `frame=` needs less"
    )]
    Map {
        /// How many.
        bytes: usize,
        /// What the system says.
        source: io::Error,
    },
    /// The file belongs to another user, and this process may not open it.
    #[error(
        "{} belongs to user {owner}, and this process may not open it: choose another name, or have that user open it with `mode=660`",
        path.display()
    )]
    Denied {
        /// The file.
        path: PathBuf,
        /// Its owner's number.
        owner: u32,
    },
    /// The file belongs to a user that is not trusted.
    #[error(
        "{} belongs to user {owner}, who could end this process through it: choose another name, or set `owner={owner}` if you trust that user",
        path.display()
    )]
    Stranger {
        /// The file.
        path: PathBuf,
        /// Its owner's number.
        owner: u32,
    },
    /// The path is not a regular file.
    #[error("{} is a symbolic link or no regular file, and is not opened: choose another name, or `rm {}`", path.display(), path.display())]
    NoFile {
        /// Its path.
        path: PathBuf,
    },
    /// The file is not a segment.
    #[error("{} is no segment of this transport: choose another name, or `rm {}`", path.display(), path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Processes of another version use the segment.
    #[error("{} is in use by processes of version {found} of this transport, and this is version {own}: use one version, or another name", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Theirs.
        found: u32,
        /// Ours.
        own: u32,
    },
    /// The header is invalid, or the file is too short.
    #[error("{} is broken: {why}; end the processes that use it, or choose another name", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The first process of the link chose another value.
    #[error("the link has {setting}={has}, not {asked}: leave the setting out, or choose another name")]
    Conflict {
        /// Which setting.
        setting: &'static str,
        /// What the link has.
        has: usize,
        /// What was asked for.
        asked: usize,
    },
    /// The link has no room for another member.
    #[error(
        "{members} processes are on this link, and it has no room for more: start the first one with a larger `members=`, up to {MAX_MEMBERS}"
    )]
    Full {
        /// The most members that it can have.
        members: usize,
    },
    /// There is no memory for the segment.
    #[error("no room for {bytes} bytes in {}: {source}; `df {}` shows how much is free, a smaller `frame=` needs less", dir.display(), dir.display())]
    Space {
        /// The directory.
        dir: PathBuf,
        /// Bytes needed.
        bytes: usize,
        /// What the system says.
        source: io::Error,
    },
    /// There is no room for another file in the directory.
    #[error(
        "no room for another file in {}: {source}; `df {}` and `df -i {}` show how much is free: remove files, or name another directory \
         with `dir=`",
        dir.display(), dir.display(), dir.display()
    )]
    Files {
        /// The directory.
        dir: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The process may not write a file of that length.
    #[error(
        "the segment's file has {bytes} bytes, and this process may make files of {most}: `ulimit -f unlimited` raises that, a smaller \
         `members=` or `frame=` needs less"
    )]
    FileSize {
        /// How long it is.
        bytes: u64,
        /// How long it may be.
        most: u64,
    },
    /// Another process holds the lock for joining and leaving.
    #[error("a process has been opening or closing {} for {seconds} s: `fuser -v {}` names the processes that use it", path.display(), path.display())]
    Busy {
        /// The file.
        path: PathBuf,
        /// Seconds waited.
        seconds: u64,
    },
    /// There is no memory for the pool.
    #[error("{0}: lower `frames=`, or `frame=`")]
    Memory(#[from] NoMemory),
    /// The layout of the pool is invalid.
    #[error(transparent)]
    Pool(#[from] LayoutError),
    /// Another error of the system.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the system says.
        source: io::Error,
    },
}

am_transport::debug_as_display!(ShmOpenError);

/// An error of a call that should not fail.
pub(crate) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> ShmOpenError {
    move |source| {
        let (what, source) = (what.into(), source.into());
        let is_full = |errno: Errno| source.raw_os_error() == Some(errno as i32);
        match is_full(Errno::EMFILE) || is_full(Errno::ENFILE) {
            true => ShmOpenError::Descriptors { what, source },
            false => ShmOpenError::System { what, source },
        }
    }
}
