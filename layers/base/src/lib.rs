//! **The parts that the layers share**: the nodes of a program by number, and connections that are made when they are needed.
//!
//! ```text
//!   fm, dp, threads
//!      │
//!   cluster.rs     the number of a node ─▶ its name, and back
//!   link.rs        the name of an endpoint ─▶ a connection with it, made again after it has ended
//!      │
//!   am-api         nodes, endpoints, connections
//! ```
//!
//! Read first: [`Cluster`], then [`Link`].
//!
//! ```
//! use am_base::{Cluster, Rank};
//!
//! let cluster = Cluster::new(["alpha", "beta"], Rank(0)).expect("a list of names");
//! assert_eq!((cluster.name(Rank(1)), cluster.rank("beta")), (Some("beta"), Some(Rank(1))));
//! ```
#![forbid(unsafe_code)]

mod cluster;
mod link;

pub use cluster::{Cluster, ClusterError, Rank};
pub use link::Link;
