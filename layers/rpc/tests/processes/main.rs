//! Servers that are stopped, killed, started again and ended, over UDP and shared memory. See [`cases`].

mod cases;

use std::process::id;

use cases::{Pair, killed_in_a_method, leaves, start, started_again, stopped};

fn udp(what: &str) -> Pair {
    let introduced = |place: &str| format!("udp:127.0.0.1:0,peer={}", place.strip_prefix("udp:").unwrap());
    Pair::over("udp:127.0.0.1:0", Box::new(move |caller, notes| start(&introduced(caller), notes)), what)
}

fn shm(what: &str) -> Pair {
    let place = format!("shm:am-rpc-{what}-{}", id());
    Pair::over(&place.clone(), Box::new(move |_, notes| start(&place, notes)), what)
}

#[test]
fn stopped_over_udp() {
    stopped(udp("stopped"));
}

#[test]
fn stopped_over_shared_memory() {
    stopped(shm("stopped"));
}

#[test]
fn killed_in_a_method_over_udp() {
    killed_in_a_method(udp("killed"));
}

#[test]
fn killed_in_a_method_over_shared_memory() {
    killed_in_a_method(shm("killed"));
}

#[test]
fn started_again_over_udp() {
    started_again(udp("again"));
}

#[test]
fn started_again_over_shared_memory() {
    started_again(shm("again"));
}

#[test]
fn leaves_over_udp() {
    leaves(udp("leaves"));
}

#[test]
fn leaves_over_shared_memory() {
    leaves(shm("leaves"));
}
