//! The daemon's interface is removed, and made again.

use std::process::Command;

use am_netns::{Host, VethOptions, veth};

use crate::common::{list, until};
use crate::users::{Place, Process};

#[test]
fn a_wire_that_has_gone_is_in_the_log_and_in_the_list_until_it_is_back() {
    let hosts = ["amd-gone", "amd-gone-far"].map(|name| Host::new(name).expect("root"));
    let ends = veth(&hosts[0], "am0", &hosts[1], "am0", &VethOptions::default()).unwrap();
    let place = Place::new();
    let (socket, log) = (place.path("amd.sock"), place.path("log"));
    let mut command = Command::new(place.path("amd"));
    command.args(["run", "xdp:am0", "--socket"]).arg(&socket).stdout(std::process::Stdio::null());
    command.stderr(std::fs::File::create(&log).unwrap());
    let _daemon = Process(hosts[0].enter(|| command.spawn()).unwrap().unwrap());
    until("it serves", || crate::common::is_served(&socket));
    assert_eq!(list(&socket).link_error, None);
    let logged = |text: &str| std::fs::read_to_string(&log).unwrap().matches(text).count();

    drop(ends);
    let ip = |arguments: &str| {
        let arguments = arguments.split_whitespace();
        let status = hosts[0].enter(|| Command::new("ip").args(arguments).status()).unwrap().unwrap();
        assert!(status.success(), "{status}");
    };
    ip("link del am0");
    until("the list shows it", || list(&socket).link_error.is_some());
    until("it is gone and no longer without carrier", || {
        list(&socket).link_error.is_some_and(|why| why.contains("is gone"))
    });
    let why = list(&socket).link_error.unwrap();
    let advice = why.split_once(": ip ").expect("it says what to do").1;
    let shown = Command::new(place.path("amd")).args(["list", "--socket"]).arg(&socket).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("the wire does not work: "), "{shown:?}");
    until("it is in the log", || logged("wire xdp:am0, veth copy: interface am0") == 1);

    let _ends = veth(&hosts[0], "am0", &hosts[1], "am0", &VethOptions::default()).unwrap();
    // As it advises: the same address.
    ip("link set am0 down");
    ip(advice);
    ip("link set am0 up");
    until("it is back", || list(&socket).link_error.is_none());
    until("the log says so", || logged("it works again") == 1);
    assert_eq!(logged("wire xdp:am0, veth copy: interface am0"), 1);
}
