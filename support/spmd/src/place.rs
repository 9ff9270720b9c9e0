//! A process's place among those of its job.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::panic::resume_unwind;
use std::thread;

use am_api::{Builder, Node, transports};
use am_pmix::Client;

use crate::errors::{ExchangeError, FindError, OpenError};
use crate::launched::{self, Launcher, text, variable};
use crate::names::{self, Facts, NameError};
use crate::rendezvous::{MAX_BLOB, MAX_PIECE, variables};

/// The most bytes of all processes in one round of an exchange.
const MAX_ROUND: usize = 128 << 20;

/// A blob's length, in front of its first piece.
const LENGTH: usize = size_of::<u64>();

/// The place of this process in its job: its rank, the number of processes, and the way to the others.
#[derive(Debug)]
pub struct Place {
    rank: usize,
    size: usize,
    facts: Facts,
    transport: String,
    link: Link,
}

/// What carries the blobs.
#[derive(Debug)]
enum Link {
    Alone,
    Launcher(Launcher),
    Pmix(Box<Client>),
}

impl Link {
    fn exchange(&mut self, blob: &[u8]) -> Result<Vec<Vec<u8>>, ExchangeError> {
        match self {
            Link::Alone => Ok(vec![blob.to_vec()]),
            Link::Launcher(launcher) => launcher.exchange(blob),
            Link::Pmix(client) => Ok(client.exchange(blob)?),
        }
    }

    /// The blobs of all of `size` processes, in as many rounds as the longest one takes.
    fn exchange_all(&mut self, blob: &[u8], size: usize) -> Result<Vec<Vec<u8>>, ExchangeError> {
        if blob.len() > MAX_BLOB {
            return Err(ExchangeError::TooLong(blob.len()));
        }
        let most = MAX_PIECE.min(MAX_ROUND / size);
        let (begin, mut rest) = blob.split_at(blob.len().min(most - LENGTH));
        let first = self.exchange(&[&(blob.len() as u64).to_le_bytes(), begin].concat())?;
        let (mut all, mut longest) = (vec![], 0);
        for (rank, first) in first.iter().enumerate() {
            let (length, begin) = first.split_first_chunk::<LENGTH>().ok_or(ExchangeError::OutOfStep(rank))?;
            longest = longest.max(u64::from_le_bytes(*length).min(MAX_BLOB as u64) as usize);
            all.push(begin.to_vec());
        }
        let mut done = most - LENGTH;
        while done < longest {
            let (piece, behind) = rest.split_at(rest.len().min(most));
            rest = behind;
            let pieces = self.exchange(piece)?;
            all.iter_mut().zip(pieces).for_each(|(blob, piece)| blob.extend_from_slice(&piece));
            done += most;
        }
        Ok(all)
    }

    fn barrier(&mut self) -> Result<(), ExchangeError> {
        match self {
            Link::Pmix(client) => Ok(client.barrier()?),
            other => other.exchange(&[]).map(drop),
        }
    }
}

impl Place {
    /// The place of this process, by what its launcher left in the environment. Without a launcher the process is alone: rank 0 of 1.
    ///
    /// Call it once in a process: a launcher gives each place to one.
    ///
    /// # Errors
    /// See [`FindError`].
    pub fn find() -> Result<Place, FindError> {
        // Of two launchers the inner one counts: am-run takes the variables of PMIx away from what it starts.
        if am_pmix::is_launched() {
            Place::of_pmix()
        } else if launched::is_launched() {
            Place::of_launcher()
        } else if let Some((processes, advice)) = other_launcher() {
            Err(FindError::OtherLauncher { processes, advice })
        } else {
            Place::alone()
        }
    }

    fn of_pmix() -> Result<Place, FindError> {
        let client = Client::open()?;
        let (rank, size, local_size) = (client.rank(), client.size(), client.local_size());
        let job = short_job(&client.job());
        let (local_rank, is_only_host) = (client.local_rank(), local_size == size);
        let facts = Facts { job, size, local_rank, local_size, is_only_host, host: None };
        Ok(Place { rank, size, facts, transport: asked_transport()?, link: Link::Pmix(Box::new(client)) })
    }

    fn alone() -> Result<Place, FindError> {
        // A number that no other process has: the hasher's keys are random.
        let job = format!("alone{:016x}", RandomState::new().build_hasher().finish());
        let facts = Facts { job, size: 1, local_rank: 0, local_size: 1, is_only_host: true, host: None };
        Ok(Place { rank: 0, size: 1, facts, transport: asked_transport()?, link: Link::Alone })
    }

    fn of_launcher() -> Result<Place, FindError> {
        let (rank, size): (usize, usize) = (variable(variables::RANK)?, variable(variables::SIZE)?);
        if rank >= size {
            return Err(FindError::Senseless { name: variables::RANK, text: rank.to_string() });
        }
        let local_size = variable(variables::LOCAL_SIZE)?;
        let facts = Facts {
            job: variable(variables::JOB)?,
            size,
            local_rank: variable(variables::LOCAL_RANK)?,
            local_size,
            is_only_host: local_size == size,
            host: text(variables::HOST)?,
        };
        let link = Link::Launcher(Launcher::connect()?);
        Ok(Place { rank, size, facts, transport: asked_transport()?, link })
    }

    /// Whether a launcher gave it: to this process, once.
    pub fn is_launched(&self) -> bool {
        !matches!(self.link, Link::Alone)
    }

    /// The number of this process, from 0.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of processes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The number of this process among those on its host.
    pub fn local_rank(&self) -> usize {
        self.facts.local_rank
    }

    /// The number of processes on its host.
    pub fn local_size(&self) -> usize {
        self.facts.local_size
    }

    /// The job's name: no other job that runs has it.
    pub fn job(&self) -> &str {
        &self.facts.job
    }

    /// What the node of this rank is called.
    pub fn node_name(&self, rank: usize) -> String {
        format!("{}.{rank}", self.facts.job)
    }

    /// Give each process the blobs of all, by rank. Each process calls this equally often. It returns when all have called. A blob
    /// has at most [`MAX_BLOB`] bytes; each process holds those of all.
    ///
    /// # Errors
    /// See [`ExchangeError`]; after one, the place is of no more use.
    pub fn exchange(&mut self, blob: &[u8]) -> Result<Vec<Vec<u8>>, ExchangeError> {
        self.link.exchange_all(blob, self.size)
    }

    /// The same, and meanwhile `poll` runs again and again. A node that is not polled answers nobody, so its peers give it up after
    /// their [patience](Builder::patience): a process that waits for others while messages are on their way polls its endpoints
    /// here.
    ///
    /// ```
    /// use std::time::Duration;
    /// use am_api::Endpoint;
    /// use am_spmd::{ExchangeError, Place};
    ///
    /// fn meet<S>(place: &mut Place, endpoint: &mut Endpoint<S>, state: &mut S) -> Result<(), ExchangeError> {
    ///     place.exchange_with(b"", || _ = endpoint.wait(state, Duration::from_millis(1))).map(drop)
    /// }
    /// ```
    ///
    /// # Errors
    /// As for [`Place::exchange`].
    pub fn exchange_with(&mut self, blob: &[u8], poll: impl FnMut()) -> Result<Vec<Vec<u8>>, ExchangeError> {
        meanwhile(poll, || self.link.exchange_all(blob, self.size))
    }

    /// Wait until all processes are here.
    ///
    /// # Errors
    /// As for [`Place::exchange`].
    pub fn barrier(&mut self) -> Result<(), ExchangeError> {
        self.link.barrier()
    }

    /// The same, and meanwhile `poll` runs again and again: see [`Place::exchange_with`].
    ///
    /// # Errors
    /// As for [`Place::exchange`].
    pub fn barrier_with(&mut self, poll: impl FnMut()) -> Result<(), ExchangeError> {
        meanwhile(poll, || self.link.barrier())
    }

    /// End the job of this process on purpose: the launcher ends all processes, this one included, and its exit code is this one. It
    /// returns when the launcher knows; the program then exits. A process that exits with 0 by itself does not end the others.
    /// Without a launcher there is nothing to end. Any thread may call this, also while another one exchanges; with a
    /// cluster's launcher the process has to have its place.
    ///
    /// # Errors
    /// See [`FindError`].
    pub fn end_job(code: u8) -> Result<(), FindError> {
        if am_pmix::is_launched() {
            Ok(am_pmix::end_job(code.into())?)
        } else if launched::is_launched() {
            launched::end_job(code)
        } else {
            Ok(())
        }
    }

    /// The name of the transport that this process opens.
    ///
    /// # Errors
    /// See [`NameError`].
    pub fn transport(&self) -> Result<String, NameError> {
        names::complete(&self.transport, &self.facts)
    }

    /// Open this process's node, and tell it the addresses of all others. All processes call this.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(&mut self) -> Result<Node, OpenError> {
        self.open_with(|builder| builder)
    }

    /// The same with settings.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_with(&mut self, set: impl FnOnce(Builder) -> Builder) -> Result<Node, OpenError> {
        let node = set(Node::builder(&self.node_name(self.rank))).open(&self.transport()?)?;
        let addresses = self.exchange(node.local_address().as_bytes())?;
        for (rank, address) in addresses.iter().enumerate().filter(|(rank, _)| *rank != self.rank) {
            let address = String::from_utf8_lossy(address);
            for address in transports::peer_addresses(&address) {
                let refused = |why| OpenError::Address { rank, address: address.to_owned(), why };
                node.add_peer_address(address).map_err(refused)?;
            }
        }
        Ok(node)
    }
}

/// A launcher that started several processes and does not speak PMIx: their number, and what to do.
fn other_launcher() -> Option<(usize, &'static str)> {
    let number = |name| variable(name).ok().filter(|processes| *processes > 1);
    let slurm = number("SLURM_STEP_NUM_TASKS").map(|processes| (processes, "start it by `srun --mpi=pmix`"));
    slurm.or_else(|| Some((number("PMI_SIZE")?, "start it by Open MPI's mpirun, by prterun or by am-run")))
}

/// Do `work` on another thread, and `poll` here until it is done.
fn meanwhile<T: Send>(mut poll: impl FnMut(), work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let work = scope.spawn(work);
        while !work.is_finished() {
            poll();
        }
        work.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn asked_transport() -> Result<String, FindError> {
    Ok(text(variables::TRANSPORT)?.unwrap_or_else(|| names::DEFAULT.to_owned()))
}

/// A name that nodes and segments can have, of a PMIx name space: those of Open MPI and Slurm begin with the host's name and a number, or
/// are long.
fn short_job(namespace: &str) -> String {
    // FNV-1a.
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("job{:016x}", namespace.bytes().fold(0xcbf2_9ce4_8422_2325, fold))
}
