//! Programs that wait in loops of their own over AF_XDP, alone and beside UDP. Needs root.

use am_api::Transport;
use am_netns::{Host, VethOptions, veth};
use nix::sched::{CloneFlags, setns};

use crate::own_loop::{Wakes, ping_pong};

/// Open these on two hosts with a cable, each on the thread that uses it.
fn over(names: [&str; 2]) {
    let [alpha, beta] = ["alpha", "beta"].map(|name| Host::new(name).unwrap());
    let (near, far) = veth(&alpha, "am0", &beta, "am0", &VethOptions::default()).unwrap();
    near.add_ip("10.79.0.1/24").unwrap();
    far.add_ip("10.79.0.2/24").unwrap();
    let open = |host, name| -> Box<dyn Transport> {
        setns(host, CloneFlags::CLONE_NEWNET).expect("root may enter a network namespace");
        am_api::transports::open(name).unwrap_or_else(|error| panic!("{error}"))
    };
    // The thread of the test has a namespace of its own.
    std::thread::scope(|scope| {
        let pings = scope.spawn(|| ping_pong(Wakes::Frames, || open(&alpha, names[0]), || open(&beta, names[1])));
        pings.join().unwrap();
    });
}

#[test]
fn over_af_xdp() {
    over(["xdp:am0"; 2]);
}

#[test]
fn over_af_xdp_and_udp_at_once() {
    over(["xdp:am0+udp:10.79.0.1:7000,peer=10.79.0.2:7000", "xdp:am0+udp:10.79.0.2:7000,peer=10.79.0.1:7000"]);
}
