//! The failure of a call: -1, `errno`, and a text that says what to do.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use am_api::EndpointError;
use am_c_runtime::keep_error;
use am_dp::{ConnectError, Dp, OpenError, ReadError, WriteError};
use nix::errno::Errno;

use crate::mapping::Mapping;

/// Whether the program has ever closed descriptors of the library.
static HAS_HUNG_UP: AtomicBool = AtomicBool::new(false);

/// The node was closed because the program has closed its descriptors. From now on errors mention this.
pub(crate) fn note_hang_up() {
    HAS_HUNG_UP.store(true, Ordering::Relaxed);
}

/// Why a call failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) errno: Errno,
    text: String,
}

impl Failure {
    #[cold]
    pub(crate) fn new(errno: Errno, text: impl ToString) -> Failure {
        Failure { errno, text: text.to_string() }
    }

    #[cold]
    pub(crate) fn not_a_point(fd: i32) -> Failure {
        let why = match HAS_HUNG_UP.load(Ordering::Relaxed) {
            true => {
                "; this process has closed descriptors of libamdp (closefrom, close_range, dup2), and all endpoints have gone with them"
            }
            false => "",
        };
        Failure::new(Errno::EBADF, format!("descriptor {fd} is no endpoint of this process: dp_open returns one{why}"))
    }

    /// The thread ends, so the program never gets this.
    #[cold]
    pub(crate) fn cancelled() -> Failure {
        Failure::new(Errno::ECANCELED, "the thread was cancelled")
    }

    /// With an explanation, if it names a peer that cannot be reached: this node itself may be the cause.
    #[cold]
    pub(crate) fn explained(self, dp: &Dp<Mapping>) -> Failure {
        match self.errno {
            Errno::EHOSTUNREACH | Errno::ECONNRESET => Failure { text: dp.explain(&self.text), ..self },
            _ => self,
        }
    }

    #[cold]
    pub(crate) fn io(error: &io::Error, what: &str) -> Failure {
        let errno = error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
        let advice = match errno {
            Errno::EMFILE => "; raise the limit (`ulimit -n`), or close descriptors",
            Errno::EAGAIN => "; raise the limit on processes and threads (`ulimit -u`), or end some",
            Errno::EFBIG => "; raise the limit on files (`ulimit -f`), or ask for a smaller pool",
            _ => "",
        };
        Failure::new(errno, format!("{what}: {error}{advice}"))
    }
}

impl From<OpenError> for Failure {
    #[cold]
    fn from(error: OpenError) -> Failure {
        let errno = match &error {
            OpenError::InUse(_) => Errno::EADDRINUSE,
            OpenError::PoolSize { .. } => Errno::EINVAL,
            OpenError::Endpoint(EndpointError::Taken(_)) => Errno::EADDRINUSE,
            OpenError::Endpoint(_) => Errno::ENOSPC,
            OpenError::Descriptor(why) => why.raw_os_error().map_or(Errno::EIO, Errno::from_raw),
        };
        Failure::new(errno, error)
    }
}

impl From<ConnectError> for Failure {
    #[cold]
    fn from(error: ConnectError) -> Failure {
        let errno = match &error {
            ConnectError::Closed => Errno::EBADF,
            ConnectError::Alone(_) => {
                let text = format!(
                    "{error}: start it with `am-run -n 2`, or set DP_NID and DP_NODES (docs/directed-point.md)"
                );
                return Failure::new(Errno::EHOSTUNREACH, text);
            }
            ConnectError::NoNode { .. } | ConnectError::Unreachable { .. } => Errno::EHOSTUNREACH,
            ConnectError::NoPoint { .. } => Errno::ECONNREFUSED,
            ConnectError::OtherList(_) => Errno::EPROTO,
            ConnectError::NoFlow => Errno::ENOBUFS,
        };
        Failure::new(errno, error)
    }
}

impl From<WriteError> for Failure {
    #[cold]
    fn from(error: WriteError) -> Failure {
        let errno = match error {
            WriteError::Closed => Errno::EBADF,
            WriteError::NotConnected => Errno::ENOTCONN,
            WriteError::Full => Errno::EAGAIN,
            WriteError::Empty => Errno::EINVAL,
            WriteError::TooLong { .. } => Errno::EMSGSIZE,
            WriteError::NoMemory(_) => Errno::ENOMEM,
            WriteError::Ended(_) => Errno::ECONNRESET,
        };
        Failure::new(errno, error)
    }
}

impl From<ReadError> for Failure {
    #[cold]
    fn from(error: ReadError) -> Failure {
        let errno = match error {
            ReadError::Closed => Errno::EBADF,
            ReadError::Lost { .. } => Errno::ECONNRESET,
            ReadError::TooLong { .. } => Errno::EMSGSIZE,
        };
        Failure::new(errno, error)
    }
}

/// Run a call, and let no panic through. A failure is `bad`.
#[inline]
pub(crate) fn call<T: Copy>(bad: T, work: impl FnOnce() -> Result<T, Failure>) -> T {
    let failed = |failure: Failure| {
        keep_error(failure.text);
        failure.errno.set();
        bad
    };
    let bug = |said: &str| Failure::new(Errno::EIO, format!("a bug in this library: {said}"));
    am_c_runtime::call(|| work().unwrap_or_else(failed), |said| failed(bug(said)))
}
