//! **Programs of many processes** (SPMD, single program, multiple data): a process finds its rank, the number of processes, and
//! the addresses of the others, by whatever it was started.
//!
//! ```text
//!   am-run -n 4 program      mpirun -n 4 program      srun -n 4 --mpi=pmix program      program
//!        │ variables, socket      │ PMIx                    │ PMIx                        │ alone
//!        └────────────────────────┴───────────┬─────────────┴─────────────────────────────┘
//!                                     Place::find()
//!                                             │   rank, size, exchange of small blobs, barrier
//!                                     Place::open()      a node that knows the addresses of all others
//! ```
//!
//! A job has one [`Place`] in each process. [`Place::exchange`] gives each process the blobs of all; all else is made of it.
//!
//! Read first: [`Place`], then `launched.rs` (a process that `am-run` started) and `names.rs` (which transport each process opens).
//!
//! ```
//! use std::time::Duration;
//! use am_spmd::Place;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut place = Place::find()?; // alone, unless a launcher started this process
//! let node = place.open()?;
//! let mut endpoint = node.endpoint::<()>("main")?;
//! place.barrier()?; // every endpoint is there
//! for rank in (0..place.size()).filter(|rank| *rank != place.rank()) {
//!     let to = endpoint.connect(&place.node_name(rank), "main")?;
//!     endpoint.wait_open(&mut (), to, Duration::from_secs(10))?;
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod errors;
mod launched;
mod names;
mod place;
pub mod rendezvous;
pub mod segment;

pub use errors::{ExchangeError, FindError, OpenError};
pub use names::NameError;
pub use place::Place;
pub use rendezvous::MAX_BLOB;
