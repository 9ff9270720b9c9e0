//! **PMIx** for a process that wants to find the others of its job: rank, size, an exchange of small blobs. Launchers of clusters speak it:
//! Open MPI's `mpirun`, `prterun`, Slurm's `srun --mpi=pmix`.
//!
//! ```text
//!   Client::open()      PMIx_Init; the job's size, the ranks on this host
//!   client.exchange()   PMIx_Put, PMIx_Commit, PMIx_Fence; PMIx_Get of each rank, PMIx_Fence
//!   end_job()           PMIx_Abort
//!   drop                PMIx_Finalize
//! ```
//!
//! `libpmix.so.2` is loaded when a client is opened, so a build needs nothing of PMIx. The types are those of its stable ABI, versions 2
//! to 5.
//!
//! Read first: [`Client`], then `library.rs`, the only `unsafe` code here.
#![allow(unsafe_code, reason = "calls of a C library")]

mod error;
mod library;

use std::env;

pub use error::PmixError;
use library::{Library, Proc, Value};

/// A process of a job that speaks PMIx.
#[derive(Debug)]
pub struct Client {
    library: Library,
    own: Proc,
    size: usize,
    local_rank: usize,
    local_size: usize,
    /// The exchanges so far: each has a key.
    rounds: u32,
}

/// The variables by which a launcher that speaks PMIx names a process.
pub const VARIABLES: [&str; 2] = ["PMIX_RANK", "PMIX_NAMESPACE"];

/// Whether a launcher that speaks PMIx started this process.
pub fn is_launched() -> bool {
    VARIABLES.iter().all(|name| env::var_os(name).is_some())
}

/// End the job of this process, which has a [`Client`], with this exit code.
///
/// # Errors
/// [`PmixError::Call`].
pub fn end_job(code: i32) -> Result<(), PmixError> {
    Library::load()?.abort(code)
}

impl Client {
    /// Join the job.
    ///
    /// # Errors
    /// See [`PmixError`].
    pub fn open() -> Result<Client, PmixError> {
        let library = Library::load()?;
        let own = library.init()?;
        let all = own.of_rank(Proc::ALL);
        let number = |of: &Proc, key| match library.get(of, key) {
            Ok(Value::Number(number)) => usize::try_from(number).map_err(|_| PmixError::Untold(key)),
            Ok(Value::Bytes(_)) => Err(PmixError::Untold(key)),
            Err(error) => Err(error),
        };
        let size = number(&all, "pmix.job.size")?;
        // Some launchers do not tell these two. Then each process counts as alone on its host.
        let local_size = number(&all, "pmix.local.size").unwrap_or(1);
        let local_rank = number(&own, "pmix.lrank").unwrap_or(0);
        Ok(Client { library, own, size, local_rank, local_size, rounds: 0 })
    }

    /// The number of this process, from 0.
    pub fn rank(&self) -> usize {
        self.own.rank() as usize
    }

    /// The number of processes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The number of this process among those on its host.
    pub fn local_rank(&self) -> usize {
        self.local_rank
    }

    /// The number of processes on its host.
    pub fn local_size(&self) -> usize {
        self.local_size
    }

    /// The job's name (PMIx: its name space).
    pub fn job(&self) -> String {
        self.own.job()
    }

    /// Give each process the blobs of all, by rank. Each process calls this equally often.
    ///
    /// # Errors
    /// [`PmixError::Call`], for instance if another process has ended.
    pub fn exchange(&mut self, blob: &[u8]) -> Result<Vec<Vec<u8>>, PmixError> {
        let key = format!("am-exchange-{}", self.rounds);
        self.rounds += 1;
        self.library.put(&key, blob)?;
        self.library.commit()?;
        self.barrier()?;
        let blob_of = |rank| match self.library.get(&self.own.of_rank(rank), &key)? {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Number(_) => Err(PmixError::Untold("a blob")),
        };
        let blobs = (0..u32::try_from(self.size).unwrap_or(u32::MAX)).map(blob_of).collect();
        // A blob may be fetched from its host only now, and a process that has left takes its blobs along: PMIx_Get would wait forever.
        self.barrier()?;
        blobs
    }

    /// Wait until all processes are here.
    ///
    /// # Errors
    /// As for [`Client::exchange`].
    pub fn barrier(&mut self) -> Result<(), PmixError> {
        self.library.fence(&self.own.of_rank(Proc::ALL))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.library.finalize();
    }
}
