//! Errors.

/// Why PMIx does not help.
#[derive(Debug, thiserror::Error)]
pub enum PmixError {
    /// The library is not installed.
    #[error(
        "libpmix.so.2 cannot be loaded ({0}): install it (Debian: apt-get install libpmix2), or start the program by am-run"
    )]
    Library(#[from] libloading::Error),
    /// A call failed.
    #[error("{call} failed with {status} ({text}): was the program started by mpirun, prterun or `srun --mpi=pmix`?")]
    Call {
        /// The call.
        call: &'static str,
        /// Its status.
        status: i32,
        /// What the library says of it.
        text: String,
    },
    /// The launcher does not say what a process has to know.
    #[error("the launcher does not tell `{0}`")]
    Untold(&'static str),
}
