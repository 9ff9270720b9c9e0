//! Why a program could not attach, and what to do about it.

use std::io;
use std::path::PathBuf;

use am_ring::LayoutError;
use am_transport::memory::NoMemory;

use crate::protocol::VERSION;

/// Why a program could not attach to a daemon.
#[derive(thiserror::Error)]
pub enum VnicOpenError {
    /// A setting is out of range.
    #[error("`{setting}` is out of range: {hint}")]
    Setting {
        /// The setting, as it was written.
        setting: String,
        /// What to write instead.
        hint: &'static str,
    },
    /// No daemon listens on the socket.
    #[error("no daemon serves {}: {source}; start one with `amd run xdp:eth1 --socket {}`, or name its socket", path.display(), path.display())]
    NoDaemon {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// As many programs as fit wait for the daemon to accept them.
    #[error("the daemon at {} accepts no program: too many wait already; `amd list --socket {}` shows whether it runs", path.display(), path.display())]
    Crowded {
        /// The socket.
        path: PathBuf,
    },
    /// This user may not use the socket.
    #[error("this user may not open {}: {source}; ask whoever runs the daemon for its `--mode` and `--group`", path.display())]
    Rights {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The daemon refused.
    #[error("the daemon at {} refused: {why}", path.display())]
    Refused {
        /// The socket.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// The daemon did not answer.
    #[error("the daemon at {} did not answer within {seconds} s: `amd list --socket {}` shows whether it runs", path.display(), path.display())]
    Silent {
        /// The socket.
        path: PathBuf,
        /// Seconds waited.
        seconds: u64,
    },
    /// The answer was none of this version.
    #[error("{} is no daemon of version {VERSION}: start program and daemon of one version", path.display())]
    Foreign {
        /// The socket.
        path: PathBuf,
    },
    /// There is no memory for the pool.
    #[error("{0}: lower `frames=`, or `frame=`")]
    Memory(#[from] NoMemory),
    /// The layout of the pool is invalid.
    #[error(transparent)]
    Pool(#[from] LayoutError),
    /// The queue that came with the port cannot be used.
    #[error("the daemon at {} gave a queue that cannot be used: {why}", path.display())]
    Queue {
        /// The socket.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// Another error of the system.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

am_transport::debug_as_display!(VnicOpenError);

/// An error of a call that should not fail.
pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> VnicOpenError {
    move |source| VnicOpenError::System { what, source: source.into() }
}
