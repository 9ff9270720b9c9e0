//! Why a segment could not be opened, and what to do about it.

use std::io;
use std::path::PathBuf;

use am_ring::LayoutError;
use am_transport::memory::NoMemory;
use nix::errno::Errno;

use crate::options::{MOST_MEMBERS, OptionsError};

/// Why a segment could not be opened. Nothing of the attempt is left.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Options that make no sense.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// No name of a segment.
    #[error("`{0}` is no name of a link: 1 to 64 letters, digits, `.`, `_` and `-`, as in `shm:room1`")]
    Name(String),
    /// The directory.
    #[error("no directory {}: {source}; `dir=` says another, or mount one: `mount -t tmpfs none {}`", dir.display(), dir.display())]
    Directory {
        /// As it was named.
        dir: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The directory lets us make no files.
    #[error(
        "no file can be made in {}: {source}; `dir=` says another directory, or have its owner let this user write there",
        dir.display()
    )]
    Rights {
        /// As it was named.
        dir: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The process, or the system, has as many open files as it may have.
    #[error(
        "{what}: {source}: each link takes a few descriptors; `ulimit -n` says how many a process may have, and raises it"
    )]
    Descriptors {
        /// What was tried.
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// The process may not have so many addresses.
    #[error(
        "the {bytes} bytes of the segment find no place in this process: {source}; `ulimit -v` says what it may have, a smaller \
         `members=` or `frame=` needs less"
    )]
    Map {
        /// How many.
        bytes: usize,
        /// What the system says.
        source: io::Error,
    },
    /// The file belongs to somebody who does not let us.
    #[error(
        "{} belongs to user {owner}, who does not let this process in: choose another name, or have them open it with `mode=660`",
        path.display()
    )]
    Denied {
        /// The file.
        path: PathBuf,
        /// Its owner's number.
        owner: u32,
    },
    /// The file belongs to a user whom we were not told to trust.
    #[error(
        "{} belongs to user {owner}, who could end this process through it: choose another name, or say `owner={owner}` if you trust them",
        path.display()
    )]
    Stranger {
        /// The file.
        path: PathBuf,
        /// Its owner's number.
        owner: u32,
    },
    /// What has the name is no file.
    #[error("{} is a link or no file at all, and is not followed: choose another name, or `rm {}`", path.display(), path.display())]
    NoFile {
        /// What it is called.
        path: PathBuf,
    },
    /// A file of something else.
    #[error("{} is no segment of this transport: choose another name, or `rm {}`", path.display(), path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Processes of another version are using it.
    #[error("{} is in use by processes of version {found} of this transport, this is version {own}: use one version, or another name", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Theirs.
        found: u32,
        /// Ours.
        own: u32,
    },
    /// The header makes no sense, or the file is too short.
    #[error("{} is broken: {why}; end the processes that use it, or choose another name", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Who came first decided otherwise.
    #[error("the link has {setting}={has}, not {asked}: leave the setting out, or choose another name")]
    Conflict {
        /// Which setting.
        setting: &'static str,
        /// What the link has.
        has: usize,
        /// What was asked for.
        asked: usize,
    },
    /// No place left.
    #[error(
        "{members} processes are on this link, which is all it can have: whoever comes first may say `members=`, up to {MOST_MEMBERS}"
    )]
    Full {
        /// How many it can have.
        members: usize,
    },
    /// No memory for it.
    #[error("no room for {bytes} bytes in {}: {source}; `df {}` says how much there is, a smaller `frame=` needs less", dir.display(), dir.display())]
    Space {
        /// Where.
        dir: PathBuf,
        /// How much.
        bytes: usize,
        /// What the system says.
        source: io::Error,
    },
    /// The process may not write files that long.
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
    /// Somebody opens or closes it and does not come to an end.
    #[error("a process that opens or closes {} has not come to an end for {seconds} s: `fuser -v {}` says who", path.display(), path.display())]
    Busy {
        /// The file.
        path: PathBuf,
        /// How long was waited.
        seconds: u64,
    },
    /// No memory for the pool.
    #[error("{0}: lower `frames=`, or `frame=`")]
    Memory(#[from] NoMemory),
    /// The pool.
    #[error(transparent)]
    Pool(#[from] LayoutError),
    /// Anything else.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the system says.
        source: io::Error,
    },
}

/// An error of something that should not fail.
pub(crate) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> OpenError {
    move |source| {
        let (what, source) = (what.into(), source.into());
        let is_full = |errno: Errno| source.raw_os_error() == Some(errno as i32);
        match is_full(Errno::EMFILE) || is_full(Errno::ENFILE) {
            true => OpenError::Descriptors { what, source },
            false => OpenError::System { what, source },
        }
    }
}
