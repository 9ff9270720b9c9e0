//! A node that waits uses no processor over AF_XDP, either. Needs root.

use am_api::Transport;
use am_netns::{Host, VethOptions, veth};
use nix::sched::{CloneFlags, setns};

use crate::idling::{Wait, both_idle};

#[test]
fn over_af_xdp() {
    for how in [Wait::Blocked, Wait::OwnLoop] {
        let [alpha, beta] = ["alpha", "beta"].map(|name| Host::new(name).unwrap());
        veth(&alpha, "am0", &beta, "am0", &VethOptions::default()).unwrap();
        let open = |host| {
            move || -> Box<dyn Transport> {
                setns(host, CloneFlags::CLONE_NEWNET).expect("root may enter a network namespace");
                am_api::transports::open("xdp:am0").unwrap_or_else(|error| panic!("{error}"))
            }
        };
        both_idle(how, open(&alpha), open(&beta));
    }
}
