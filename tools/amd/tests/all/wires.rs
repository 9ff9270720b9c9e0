//! Two daemons and a wire between them.

use std::net::Ipv4Addr;

use am_daemon::{Daemon, DaemonOptions};
use am_transport::loopback;

use crate::common::{Place, Running, is_honest, list, port, until};
use crate::pings::{Server, amd, echo};
use crate::restart::Process;

/// Nodes behind two daemons reach each other, and nothing is refused.
fn reach_each_other(places: &[Place; 2]) {
    let [near, far] = places;
    let server = Server::start("beta", amd(&far.socket()));
    let neighbour = Server::start("gamma", amd(&near.socket()));
    echo("alpha", &amd(&near.socket()), "beta", 10_000);
    echo("alpha", &amd(&near.socket()), "gamma", 1_000);
    echo("delta", &amd(&far.socket()), "gamma", 1_000);
    for (place, name) in [(far, "beta"), (near, "gamma")] {
        let port = port(&place.socket(), name).unwrap();
        is_honest(&port);
        assert!(list(&place.socket()).to_wire > 100 && list(&place.socket()).from_wire > 100);
    }
    drop((server, neighbour));
}

#[test]
fn over_a_wire_in_memory() {
    let places = [Place::new(), Place::new()];
    let plugs = loopback::pair();
    let daemons: Vec<_> = plugs
        .into_iter()
        .zip(&places)
        .map(|(plug, place)| {
            let options = DaemonOptions::new(place.socket());
            Running::start(move || Daemon::open_on(options, Box::new(plug.open().unwrap())).unwrap())
        })
        .collect();
    reach_each_other(&places);
    drop(daemons);
}

#[test]
fn over_udp_and_across_a_restart() {
    let places = [Place::new(), Place::new()];
    let [near, far] = [(); 2].map(|()| format!("udp:127.0.0.1:{}", am_netns::free_port(Ipv4Addr::LOCALHOST)));
    let first = Process::start(&[&near, "--peer", &far], &places[0].socket());
    let second = Process::start(&[&far, "--peer", &near], &places[1].socket());
    reach_each_other(&places);
    let server = Server::start("beta", amd(&places[1].socket()));
    echo("alpha", &amd(&places[0].socket()), "beta", 1_000);
    first.kill();
    let first = Process::start(&[&near, "--peer", &far], &places[0].socket());
    echo("alpha2", &amd(&places[0].socket()), "beta", 1_000);
    drop(server);
    until("the ports are free", || list(&places[1].socket()).ports.is_empty());
    first.terminate();
    second.terminate();
}
