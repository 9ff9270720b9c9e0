//! Why a program could not attach, and what to do about it.

use std::io;
use std::path::PathBuf;

use am_ring::LayoutError;
use am_transport::memory::NoMemory;
use rustix::io::Errno;

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
    /// The socket is another program's.
    #[error("{} is the socket of a program that is no daemon: name the daemon's, as `amd run` says it", path.display())]
    NotDaemon {
        /// The socket.
        path: PathBuf,
    },
    /// The path is too long for a socket.
    #[error("the path {} is too long for a socket, which has at most 107 bytes: name the daemon's socket", path.display())]
    LongPath {
        /// The path.
        path: PathBuf,
    },
    /// This process has too many open files.
    #[error("this process has no descriptor left to attach to {}: {source}; raise the limit (`ulimit -n`, `LimitNOFILE=`)", path.display())]
    Descriptors {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
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

impl VnicOpenError {
    /// The connection to this socket could not be made.
    pub(crate) fn of_connection(path: PathBuf, source: io::Error) -> VnicOpenError {
        match Errno::from_io_error(&source) {
            Some(Errno::ACCESS | Errno::PERM) => VnicOpenError::Rights { path, source },
            Some(Errno::AGAIN) => VnicOpenError::Crowded { path },
            Some(Errno::MFILE | Errno::NFILE) => VnicOpenError::Descriptors { path, source },
            Some(Errno::NOMEM | Errno::NOBUFS) => system("there is no memory for a socket")(source),
            Some(Errno::PROTOTYPE) => VnicOpenError::NotDaemon { path },
            Some(Errno::NAMETOOLONG) => VnicOpenError::LongPath { path },
            Some(Errno::PIPE | Errno::CONNRESET) => VnicOpenError::closed(path),
            _ => VnicOpenError::NoDaemon { path, source },
        }
    }

    /// The daemon has closed the connection.
    pub(crate) fn closed(path: PathBuf) -> VnicOpenError {
        let source = io::Error::new(io::ErrorKind::ConnectionReset, "it closed the connection and gave no answer");
        VnicOpenError::NoDaemon { path, source }
    }
}

/// Why a daemon could not attach a program.
#[derive(thiserror::Error)]
pub enum WelcomeError {
    /// The program has ended, or has closed the connection.
    #[error("it has left")]
    Left,
    /// The daemon has too many open files.
    #[error("the daemon has no descriptor left for its port: {0}; raise its limit (`LimitNOFILE=`, `ulimit -n`)")]
    Descriptors(io::Error),
    /// There is no memory.
    #[error("there is no memory for its port: {0}; end a program, or raise the daemon's limit of memory")]
    Memory(io::Error),
    /// Another error of the system.
    #[error("its port cannot be made: {0}")]
    System(io::Error),
}

am_transport::debug_as_display!(WelcomeError);

impl From<io::Error> for WelcomeError {
    fn from(why: io::Error) -> WelcomeError {
        match Errno::from_io_error(&why) {
            Some(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => WelcomeError::Left,
            Some(Errno::MFILE | Errno::NFILE | Errno::TOOMANYREFS) => WelcomeError::Descriptors(why),
            Some(Errno::NOMEM | Errno::NOBUFS | Errno::NOSPC) => WelcomeError::Memory(why),
            _ => WelcomeError::System(why),
        }
    }
}

/// An unexpected error of the system.
pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> VnicOpenError {
    move |source| VnicOpenError::System { what, source: source.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_named_and_no_other() {
        let connection = |cause: Errno| VnicOpenError::of_connection("a.sock".into(), cause.into()).to_string();
        for (cause, words) in [
            (Errno::NOENT, "start one"),
            (Errno::CONNREFUSED, "start one"),
            (Errno::ACCESS, "may not open"),
            (Errno::AGAIN, "too many wait"),
            (Errno::MFILE, "ulimit -n"),
            (Errno::NOBUFS, "no memory"),
            (Errno::PROTOTYPE, "is no daemon"),
            (Errno::NAMETOOLONG, "too long"),
        ] {
            let why = connection(cause);
            assert!(why.contains(words) && why.contains("start one") == (words == "start one"), "{cause}: {why}");
        }
        assert!(connection(Errno::PIPE).contains("closed the connection"));
        let welcome = |cause: Errno| WelcomeError::from(io::Error::from(cause)).to_string();
        for (cause, words) in [
            (Errno::PIPE, "has left"),
            (Errno::MFILE, "no descriptor"),
            (Errno::NOMEM, "no memory"),
            (Errno::INVAL, "cannot be made"),
        ] {
            let why = welcome(cause);
            assert!(why.contains(words) && why.contains("memory") == (words == "no memory"), "{cause}: {why}");
        }
    }
}
