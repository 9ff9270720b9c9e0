//! **What layers share**: the nodes of a program by number.
//!
//! ```text
//!   fm, dp, threads
//!      │
//!   cluster.rs     the number of a node ─▶ its name, and back
//!      │
//!   am-api         nodes, endpoints, connections
//! ```
//!
//! Read first: [`Cluster`].
//!
//! ```
//! use am_base::{Cluster, Rank};
//!
//! let cluster = Cluster::new(["alpha", "beta"], Rank(0)).expect("a list of names");
//! assert_eq!((cluster.name(Rank(1)), cluster.rank("beta")), (Some("beta"), Some(Rank(1))));
//! ```
#![forbid(unsafe_code)]

mod cluster;

pub use cluster::{Cluster, ClusterError, Rank};
