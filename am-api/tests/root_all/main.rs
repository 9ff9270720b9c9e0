//! Whole nodes over real interfaces, in network namespaces. Needs root.

use am_testing::{busy_server, doomed, example, idling, least, own_loop, wires};

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
mod multicast;
mod notes;
mod ordinary;
mod own_epoll;
mod paths;
mod queues;
mod restarted;
mod switch;
