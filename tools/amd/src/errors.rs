//! Why a daemon could not start, and what to do about it.

use std::io;
use std::path::PathBuf;

use am_ring::LayoutError;

use crate::access::AccessError;

/// Why a daemon could not start. A failed start leaves nothing behind.
#[derive(thiserror::Error)]
pub enum DaemonError {
    /// The wire could not be opened.
    #[error(transparent)]
    Wire(#[from] am_api::transports::OpenError),
    /// Several transports at once. They serve no address but their own.
    #[error(
        "`{0}` names several transports, and a wire is one: choose one of them, or run a daemon with a socket of its own for each"
    )]
    SeveralWires(String),
    /// A peer's address was refused.
    #[error("--peer {peer}: {source}")]
    Peer {
        /// The address.
        peer: String,
        /// Why.
        source: am_transport::PeerAddressError,
    },
    /// The wire cannot carry ports.
    #[error("`{name}` carries frames of at most {most} bytes, too short for a set-up: choose another `frame=`")]
    ShortFrames {
        /// The wire.
        name: String,
        /// Its longest frame.
        most: usize,
    },
    /// Another daemon serves the socket.
    #[error("a daemon serves {} already: `amd list --socket {}` shows it; choose another `--socket`", socket.display(), socket.display())]
    Running {
        /// The socket.
        socket: PathBuf,
    },
    /// The socket could not be made.
    #[error("no socket at {}: {source}{}", socket.display(), help(source))]
    Socket {
        /// The socket.
        socket: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The socket's directory is not there.
    #[error("there is no directory {}: make it as one that the daemon's user may write (`sudo install -d -o USER {}`), or choose another `--socket`", directory.display(), directory.display())]
    NoDirectory {
        /// The directory.
        directory: PathBuf,
    },
    /// The socket's directory cannot be opened.
    #[error("the directory {} cannot be used: {source}{}", directory.display(), help(source))]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The socket's path has no name for it.
    #[error("{:?} names no socket: name a file in a directory, as in `--socket /run/amd/amd.sock`", socket.as_os_str())]
    NoName {
        /// The path.
        socket: PathBuf,
    },
    /// The socket's path is too long for the system.
    #[error("the path {} is too long for a socket: choose a `--socket` of at most {most} bytes", socket.display())]
    LongPath {
        /// The path.
        socket: PathBuf,
        /// The most bytes.
        most: usize,
    },
    /// The path is in use for another purpose.
    #[error("{} is no socket, and is left alone: choose another `--socket`", socket.display())]
    NoSocket {
        /// The path.
        socket: PathBuf,
    },
    /// Another program has the socket.
    #[error("another program has the socket {}, and it is left alone: choose another `--socket`, or end that program and `rm {}`", socket.display(), socket.display())]
    Served {
        /// The socket.
        socket: PathBuf,
    },
    /// The socket's permissions could not be set.
    #[error("mode {mode:o}{} of {} cannot be set: {source}", group.map(|group| format!(" and group {group}, of which this user has to be a member,")).unwrap_or_default(), socket.display())]
    Permissions {
        /// The socket.
        socket: PathBuf,
        /// Its permissions.
        mode: u32,
        /// Its group, by number.
        group: Option<u32>,
        /// What the system says.
        source: io::Error,
    },
    /// The state file could not be used.
    #[error("the state file {} cannot be used: {source}{}", path.display(), help(source))]
    State {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The state file is another user's, or another program's.
    #[error("{} is not a state file that only this user can read, under one name, and is left alone: `rm {}`, or choose another `--socket`", path.display(), path.display())]
    ForeignState {
        /// The file.
        path: PathBuf,
    },
    /// The configuration could not be read.
    #[error("the rules in {} cannot be read: {source}; name a text file that this user may read in `--config`", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The configuration is wrong.
    #[error("{}: {why}", path.display())]
    Access {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: AccessError,
    },
    /// There is no memory for frames.
    #[error(transparent)]
    Pool(#[from] LayoutError),
    /// Another error of the system.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

am_transport::debug_as_display!(DaemonError);

/// What to do about an error in the socket's directory.
fn help(source: &io::Error) -> &'static str {
    use nix::libc::{EACCES, EDQUOT, EMFILE, ENFILE, ENOENT, ENOSPC, EPERM, EROFS};
    match source.raw_os_error() {
        Some(EACCES | EPERM | EROFS | ENOENT) => "; make its directory, as one that this user may write",
        Some(ENOSPC | EDQUOT) => "; make room in its directory",
        Some(EMFILE | ENFILE) => "; raise the limit of open files (`LimitNOFILE=`, `ulimit -n`)",
        _ => "; choose another `--socket`",
    }
}

/// An error of a call that should not fail.
pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> DaemonError {
    move |source| DaemonError::System { what, source: source.into() }
}
