//! Sockets of hosts with interfaces of their own. Needs root.

#[path = "../ends/mod.rs"]
mod ends;

mod hosts;
mod link_local;
mod mtu;
mod refused;
