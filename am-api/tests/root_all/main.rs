//! Whole nodes over real interfaces, in network namespaces. Needs root.

#[path = "../busy/mod.rs"]
mod busy_server;
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
#[path = "../wires/mod.rs"]
mod wires;

mod bounce;
mod busy;
mod capture;
mod crowd;
mod group;
mod idle;
mod killed;
mod long;
mod members;
mod moved_interface;
mod notes;
mod ordinary;
mod own_epoll;
mod paths;
mod queues;
mod restarted;
mod switch;
