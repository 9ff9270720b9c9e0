//! Messages on interfaces with large MTUs: as long as a frame is, and bulk
//! transfers in as few of them as it takes. Needs root.

use std::process::Command;
use std::time::Instant;

use crate::wires::{ECHO, SECONDS, Seen, against, connect, exchange, node, payload};
use am_api::{Endpoint, Framing, Node, RequestError, Rights};
use am_netns::{Host, VethOptions, veth};
use nix::sched::{CloneFlags, setns};

const MTUS: [u32; 2] = [9000, 65000];

fn cable(mtu: u32) -> (Host, Host) {
    let [alpha, beta] = ["alpha", "beta"].map(|name| Host::new(name).unwrap());
    veth(&alpha, "am0", &beta, "am0", &VethOptions { mtu, ..VethOptions::default() }).unwrap();
    (alpha, beta)
}

/// The longest message that a frame holds beside one word, and where one more chunk is needed.
fn lengths(most: usize) -> Vec<usize> {
    let steps = (1..18).flat_map(|n| [n * 4096 - 300, n * 4096 - 256, n * 3840]);
    let few = [0, 1, 7, 8, 46, 100, 511, 512, 1500, most - 1, most];
    few.into_iter().chain(steps).filter(|&length| length <= most).collect()
}

#[test]
fn messages_of_every_length_come_back_as_they_were_sent() {
    for mtu in MTUS {
        for framing in [Framing::Bare, Framing::Split, Framing::Plain] {
            let (alpha, beta) = cable(mtu);
            let ((), served) = against(&alpha, &beta, Some(framing), || {
                let (node, mut endpoint) = node("alpha", Some(framing));
                let mut seen = Seen::default();
                let to = connect(&mut endpoint, &mut seen);
                let how = endpoint.describe(to).unwrap();
                assert_eq!(how.max_body, mtu as usize + 14 - framing.body_at(), "a frame less its headers");
                let most = how.max_body - 8;
                for length in lengths(most) {
                    exchange(&mut endpoint, &mut seen, to, 5, length);
                }
                // And one after the other, long and short.
                exchange(&mut endpoint, &mut seen, to, 300, most);
                exchange(&mut endpoint, &mut seen, to, 1000, 100);
                let error = endpoint.try_request_in_frame(to, ECHO, &[0], &payload(0, most + 1)).unwrap_err();
                assert!(matches!(error, RequestError::TooLargeForFrame { .. }), "{error}");
                assert_eq!(node.counters().get("returned"), 0);
            });
            assert_eq!(served.wrong, 0);
        }
    }
}

/// Two nodes of this thread, each on its host.
struct Both {
    nodes: [Node; 2],
    ends: [Endpoint<Seen>; 2],
    seen: [Seen; 2],
}

impl Both {
    fn new(hosts: [&Host; 2]) -> Both {
        let name = ["alpha", "beta"];
        let open = |end: usize| {
            setns(hosts[end], CloneFlags::CLONE_NEWNET).expect("root may enter a network namespace");
            node(name[end], None)
        };
        let [(near, here), (far, there)] = [0, 1].map(open);
        let mut ends = [here, there];
        for end in &mut ends {
            end.on_transfer(|seen, over| {
                over.result.unwrap_or_else(|error| panic!("{:?}: {error}", over.kind));
                seen.replies += 1;
            });
        }
        Both { nodes: [near, far], ends, seen: Default::default() }
    }

    fn until(&mut self, what: &str, mut so: impl FnMut(&Both) -> bool) {
        let begin = Instant::now();
        while !so(self) {
            self.ends.iter_mut().zip(&mut self.seen).for_each(|(end, seen)| _ = end.poll(seen));
            assert!(
                begin.elapsed() < SECONDS,
                "still not: {what}\n{}\n{}",
                self.nodes[0].counters(),
                self.nodes[1].counters()
            );
        }
    }
}

#[test]
fn bulk_goes_in_frames_as_long_as_they_can_be() {
    const LENGTH: usize = 5_000_000;
    for mtu in MTUS {
        let (alpha, beta) = cable(mtu);
        let mut both = Both::new([&alpha, &beta]);
        let to = both.ends[0].connect("beta", "app").unwrap();
        both.until("connected", |both| both.ends[0].is_open(to));
        let theirs = both.ends[1].register(vec![0; LENGTH], Rights::BOTH);
        let ours = both.ends[0].register(vec![0; LENGTH], Rights::NONE);
        let data = payload(9, LENGTH);
        both.ends[0].put(to, theirs.id(), 0, data.clone()).unwrap();
        both.until("put", |both| both.seen[0].replies == 1 && both.seen[1].replies == 1);
        assert!(*theirs.bytes() == data, "each byte where it belongs");
        both.ends[0].get(to, theirs.id(), 0, LENGTH as u64, &ours, 0).unwrap();
        both.until("got", |both| both.seen[0].replies == 2 && both.seen[1].replies == 2);
        assert!(*ours.bytes() == data, "and back");
        let segments = LENGTH.div_ceil(mtu as usize - 50) as u64;
        for node in &both.nodes {
            assert!(node.counters().get("bulk_segments_sent") <= segments, "{}", node.counters());
        }
    }
}

/// The larger frames of one side are no use where the other has smaller ones.
#[test]
fn two_nodes_agree_on_the_shorter_frames() {
    let [alpha, beta] = ["alpha", "beta"].map(|name| Host::new(name).unwrap());
    veth(&alpha, "am0", &beta, "am0", &VethOptions { mtu: 9000, ..VethOptions::default() }).unwrap();
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let shorter = ["link", "set", "dev", "am0", "mtu", "1500"];
    let set = beta.enter(|| Command::new("ip").env("PATH", path).args(shorter).status()).unwrap();
    assert!(set.unwrap().success());
    let ((), served) = against(&alpha, &beta, Some(Framing::Bare), || {
        let (_node, mut endpoint) = node("alpha", Some(Framing::Bare));
        let mut seen = Seen::default();
        let to = connect(&mut endpoint, &mut seen);
        assert_eq!(endpoint.describe(to).unwrap().max_body, 1500);
        exchange(&mut endpoint, &mut seen, to, 100, 1492);
    });
    assert_eq!((served.requests, served.wrong), (100, 0));
}
