//! A cable between two hosts, and frames to send over it.

#![allow(dead_code)] // each test uses a part

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use am_bpf::{AttachError, AttachMode, Attachment, Config, Steer};
use am_netns::{Host, Interface, VethOptions, veth};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, EtherType, Flow, Framing, Header, Kind};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Where the program goes is near, where frames come from is far.
pub(crate) struct Cable {
    pub(crate) near_host: Host,
    pub(crate) far_host: Host,
    pub(crate) near: Interface,
    pub(crate) far: Interface,
}

impl Cable {
    /// Its ends are both called `am0`.
    pub(crate) fn new(options: &VethOptions<'_>) -> Cable {
        let host = |name| Host::new(name).unwrap_or_else(|error| panic!("{error}"));
        let (near_host, far_host) = (host("near"), host("far"));
        let (near, far) = veth(&near_host, "am0", &far_host, "am0", options).unwrap();
        Cable { near_host, far_host, near, far }
    }

    pub(crate) fn own(&self) -> Address {
        Address(self.near.address())
    }

    /// Steering for the near end's address.
    pub(crate) fn steer(&self) -> Steer {
        self.losing(0)
    }

    /// The same, losing frames on purpose.
    pub(crate) fn losing(&self, lost_per_million: u32) -> Steer {
        self.load(true, lost_per_million)
    }

    /// The same as nodes have it, by which usual frames go the short way.
    pub(crate) fn short(&self) -> Steer {
        self.load(false, 0)
    }

    fn load(&self, counts_redirected: bool, lost_per_million: u32) -> Steer {
        let (ethertype, own) = (EtherType::DEFAULT, self.own());
        let config = Config { ethertype, own, node_socket: 0, counts_redirected, lost_per_million };
        Steer::load(&config).unwrap_or_else(|error| panic!("{error}"))
    }

    /// An attachment that was dropped is held a moment longer by children that
    /// other tests have just started, until they run their own programs.
    pub(crate) fn attach(&self, steer: &mut Steer) -> Attachment {
        let mut attachment = None;
        eventually("attached", || {
            match self.near_host.enter(|| steer.attach("am0", AttachMode::Native)).unwrap() {
                Err(AttachError::Occupied { .. }) => {}
                result => attachment = Some(result.unwrap()),
            }
            attachment.is_some()
        });
        attachment.unwrap()
    }

    /// `ip`, on the near host. It mounts a file system to attach a program: here,
    /// where nobody else sees it.
    pub(crate) fn ip(&self, arguments: &[&str]) {
        let run = || Command::new("unshare").args(["--mount", "ip"]).args(arguments).output().unwrap();
        let output = self.near_host.enter(run).unwrap();
        assert!(output.status.success(), "ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }

    /// A request for a flow of the near end.
    pub(crate) fn request(&self, framing: Framing, flow: u16) -> Vec<u8> {
        request(framing, flow, self.own(), Address(self.far.address()))
    }

    /// A request that is flooded past the near end.
    pub(crate) fn to_other_host(&self, framing: Framing) -> Vec<u8> {
        request(framing, 17, Address([0x02, 9, 9, 9, 9, 9]), Address(self.far.address()))
    }
}

fn request(framing: Framing, flow: u16, to: Address, from: Address) -> Vec<u8> {
    let header = Header { kind: Kind::Request, flow: Flow::new(flow).unwrap(), nonce: 0, handler: 1, words: 0, seq: 0 };
    let mut bytes = vec![0; 100];
    let link = LinkAddresses { to, from, ethertype: EtherType::DEFAULT };
    let length = frame::emit(&mut bytes, framing, &link, &header, 16, None).unwrap();
    bytes.truncate(length);
    bytes
}

/// A counter of a program; 0 for one that counts nothing.
pub(crate) fn count(steer: &Steer, name: &str) -> u64 {
    let mut value = 0;
    steer.counters().unwrap().each(&mut |counter, count| value += if counter == name { count } else { 0 });
    value
}

pub(crate) fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !check() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(5));
    }
}
