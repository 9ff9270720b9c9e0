//! Why a process has no place, no blobs, no node.

use std::io;

use am_api::PeerAddressError;
use am_pmix::PmixError;

use crate::names::NameError;
use crate::rendezvous::MAX_BLOB;

/// Why a process has not found its place.
#[derive(thiserror::Error)]
pub enum FindError {
    /// A launcher sets the variable with others that are there.
    #[error("the variable `{0}` is missing: start the program by am-run, and pass its variables on")]
    Missing(&'static str),
    /// A variable is no text.
    #[error("the variable `{0}` is not UTF-8")]
    NotUtf8(&'static str),
    /// A variable has no value that it can have.
    #[error("the variable `{name}` is `{text}`, which makes no sense: start the program by am-run")]
    Senseless {
        /// The variable.
        name: &'static str,
        /// Its value.
        text: String,
    },
    /// The cluster's launcher speaks PMIx, and that failed.
    #[error(transparent)]
    Pmix(#[from] PmixError),
    /// A launcher started several processes, and none can find the others.
    #[error("{processes} processes were started together, without PMIx: {advice}")]
    OtherLauncher {
        /// Their number.
        processes: usize,
        /// What to do.
        advice: &'static str,
    },
    /// The launcher's agent does not answer.
    #[error("am-run's agent on this host does not answer: {0}; the job may have ended")]
    Launcher(io::Error),
    /// The agent does not accept this process.
    #[error("am-run refuses this process: {0}")]
    Refused(String),
}

am_api::debug_as_display!(FindError);

/// Why the blobs of the others did not arrive.
#[derive(thiserror::Error)]
pub enum ExchangeError {
    /// The blob is too long.
    #[error("a blob has at most {MAX_BLOB} bytes, and this one has {0}: send what is longer in messages")]
    TooLong(usize),
    /// Another process calls something else.
    #[error(
        "rank {0} waits at a barrier, and this process exchanges blobs: all processes make these calls in the same order"
    )]
    OutOfStep(usize),
    /// The cluster's launcher failed.
    #[error(transparent)]
    Pmix(#[from] PmixError),
    /// The launcher's agent is gone.
    #[error("am-run's agent on this host is gone: {0}")]
    Launcher(io::Error),
    /// The launcher ended the job.
    #[error("the job has ended")]
    JobEnded,
}

am_api::debug_as_display!(ExchangeError);

/// Why there is no node for this process.
#[derive(thiserror::Error)]
pub enum OpenError {
    /// No transport can be named.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The node could not be opened.
    #[error(transparent)]
    Node(#[from] am_api::OpenError),
    /// The addresses could not be exchanged.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// A peer's address is of no use here.
    #[error("rank {rank} is at `{address}`, and this node cannot use that: {why}")]
    Address {
        /// The peer.
        rank: usize,
        /// The address.
        address: String,
        /// What is wrong with it.
        why: PeerAddressError,
    },
}

am_api::debug_as_display!(OpenError);
