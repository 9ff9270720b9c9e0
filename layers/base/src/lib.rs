//! **The parts that the layers share**: the nodes of a program by number, connections that are made when they are needed, and one message
//! for many connections.
//!
//! ```text
//!   fm, dp, threads, rpc, ordered, objects
//!      │
//!   cluster.rs     the number of a node ─▶ its name, and back
//!   link.rs        the name of an endpoint ─▶ a connection with it, made again after it has ended
//!   publisher.rs   a message ─▶ all endpoints that have subscribed (subscriptions.rs); a slow one gets the latest
//!   helper_thread.rs   a thread that serves while the program computes; time.rs: when a wait is over
//!      │
//!   am-api         nodes, endpoints, connections
//! ```
//!
//! Read first: [`Cluster`], then [`Link`]. For fan-out: `docs/fan-out.md`, `examples/publisher.rs`, then [`Publisher`] and
//! [`Subscriptions`].
//!
//! ```
//! use am_base::{Cluster, Rank};
//!
//! let cluster = Cluster::new(["alpha", "beta"], Rank(0)).expect("a list of names");
//! assert_eq!((cluster.name(Rank(1)), cluster.rank("beta")), (Some("beta"), Some(Rank(1))));
//! ```
#![forbid(unsafe_code)]

mod cluster;
mod helper_thread;
mod link;
mod publisher;
mod subscriptions;
mod time;

pub use cluster::{Cluster, ClusterError, Rank};
pub use helper_thread::{HelperPanicked, HelperThread, StartError};
pub use link::Link;
pub use publisher::{Publisher, PublisherCounters, Subscriber, Wanted};
pub use subscriptions::{Publication, Subscriptions};
pub use time::{LONGEST, end_of};
