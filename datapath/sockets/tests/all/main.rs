//! Sockets on loopback.

#[path = "../checks/mod.rs"]
mod checks;
#[path = "../ends/mod.rs"]
mod ends;

mod any_bytes;
mod conformance;
mod connected;
mod ourselves;
mod refused;
mod stalled;
mod tcp;
mod udp;
