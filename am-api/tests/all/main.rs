//! Whole nodes in one process: over a wire in memory or another transport, simulated networks, and the examples as programs.

#[path = "../busy/mod.rs"]
mod busy_server;
#[path = "../common/mod.rs"]
mod common;
#[path = "../control_frame/mod.rs"]
mod control_frame;
#[path = "../cut/mod.rs"]
mod cut;
#[path = "../doomed/mod.rs"]
mod doomed;
#[path = "../example/mod.rs"]
mod example;
#[path = "../idling/mod.rs"]
mod idling;
#[path = "../least/mod.rs"]
mod least;
#[path = "../own_loop/mod.rs"]
mod own_loop;

mod anywhere;
mod beacon_flood;
mod bulk;
mod bundles;
mod busy;
mod causes;
mod deadline;
mod documented;
mod events;
mod examples;
mod failover;
mod failures;
mod flow_control;
mod forged;
mod forger;
mod forks;
mod gone;
mod group;
mod hybrid;
mod idle;
mod idle_connections;
mod leaving;
mod liar;
mod limits;
mod lossy;
mod members;
mod mortal;
mod moved;
mod namesake_clients;
mod namesakes;
mod no_allocation;
mod orphans;
mod own_epoll;
#[path = "../page/mod.rs"]
mod page;
mod paths;
mod ping_pong;
mod printed;
mod refusals;
mod reliable;
mod restarted;
mod returns;
mod schedule;
mod segment_key;
mod simulated;
mod sleepers;
mod slow;
mod stalled;
mod static_table;
mod threads;
mod tokens;
mod told;
mod translations;
mod transport_names;
mod vectored;
mod waiting;
