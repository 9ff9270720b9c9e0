//! A receiver that is full, on a veth: its XDP program returns requests; where
//! it is not told how, the host does. To the sender both are the same.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::least::Least;
use am_api::{Connection, Framing, HandlerId, Node, Request, Transport};
use am_multipath::Multipath;
use am_netns::{Host, VethOptions, veth};
use am_wire::EtherType;

const WORK: HandlerId = HandlerId(3);
const FLOWS: u64 = 40;
/// Of the 4 credits of each: what comes back is not to be asked about.
const EACH: u64 = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    OnePath,
    /// The program does not get the data that it needs for bouncing.
    Untold,
    TwoPaths,
}

fn open(over: Over) -> Box<dyn Transport> {
    let open = |cable: &str| -> Box<dyn Transport> {
        Box::new(am_afxdp::open(&am_afxdp::XdpOptions::new(cable)).unwrap_or_else(|error| panic!("{error}")))
    };
    match over {
        Over::OnePath => open("am0"),
        Over::Untold => Box::new(Least { inner: open("am0"), carries: |_| true }),
        Over::TwoPaths => {
            Box::new(Multipath::new(vec![open("am0"), open("am1")], EtherType::DEFAULT).expect("two paths"))
        }
    }
}

/// What the receiver saw: how often each, what its host returned, and its program.
type Served = (Vec<u8>, u64, u64);

/// A receiver with little room. It takes a message when each flow's has been returned, by what returns them here.
fn beta(over: Over, framing: Framing, stop: &AtomicBool) -> Served {
    let node = Node::builder("beta").framing(framing).receive_frames(16).open_on(open(over)).unwrap();
    let mut endpoint = node.endpoint::<Vec<u8>>("app").unwrap();
    endpoint.on_request(WORK, |seen, Request { message: request, .. }| seen[request.word(0) as usize] += 1);
    let mut seen = vec![0; (FLOWS * EACH) as usize];
    let counted = if over == Over::Untold { "rejects_sent" } else { "xdp_bounced" };
    while node.counters().get(counted) <= FLOWS && !stop.load(Relaxed) {
        (0..100).for_each(|_| _ = endpoint.wait_events(Duration::ZERO));
    }
    while !stop.load(Relaxed) {
        endpoint.poll(&mut seen);
    }
    // All are accepted: they wait here.
    while seen.contains(&0) && endpoint.poll(&mut seen) > 0 {}
    (seen, node.counters().get("rejects_sent"), node.counters().get("xdp_bounced"))
}

/// A sender that uses all its credit, with this many messages of a flow in a frame.
fn alpha(over: Over, framing: Framing, together: u64) {
    let node = Node::builder("alpha")
        .framing(framing)
        .open_on(open(if over == Over::Untold { Over::OnePath } else { over }))
        .unwrap();
    let mut endpoint = node.endpoint::<()>("app").unwrap();
    let flows: Vec<Connection> = (0..FLOWS).map(|_| endpoint.connect("beta", "app").unwrap()).collect();
    flows.iter().for_each(|to| endpoint.wait_open(&mut (), *to, crate::wires::SECONDS).unwrap());
    for number in 0..FLOWS * EACH {
        endpoint.try_request(flows[(number / EACH) as usize], WORK, &[number], &[7; 100]).unwrap();
        if (number + 1).is_multiple_of(together) {
            endpoint.poll(&mut ());
        }
    }
    let start = Instant::now();
    while !flows.iter().all(|to| endpoint.is_accepted(*to)) {
        (0..100).for_each(|_| _ = endpoint.poll(&mut ()));
        assert!(start.elapsed() < crate::wires::SECONDS, "{}", node.counters());
    }
}

fn run(framing: Framing, over: Over, together: u64) -> Served {
    let (here, there) = (Host::new("alpha").unwrap(), Host::new("beta").unwrap());
    for cable in ["am0", "am1"] {
        veth(&here, cable, &there, cable, &VethOptions::default()).unwrap();
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| there.enter(|| beta(over, framing, &stop)).unwrap());
        // Whatever becomes of the sender, the receiver has to stop.
        let result = here.enter(|| catch_unwind(AssertUnwindSafe(|| alpha(over, framing, together)))).unwrap();
        stop.store(true, Relaxed);
        let served = serving.join().unwrap();
        result.unwrap_or_else(|cause| resume_unwind(cause));
        served
    })
}

#[test]
fn the_program_returns_what_a_full_node_has_no_room_for() {
    for (framing, together) in Framing::ALL.into_iter().flat_map(|framing| [(framing, 1), (framing, EACH)]) {
        let (seen, by_host, by_program) = run(framing, Over::OnePath, together);
        assert!(seen.iter().all(|&times| times == 1), "{framing}: each once: {seen:?}");
        assert!(by_program > FLOWS, "{framing}: {by_program} by the program, {by_host} by the host");
    }
}

#[test]
fn the_program_of_one_of_several_paths_does_too() {
    let (seen, by_host, by_program) = run(Framing::Plain, Over::TwoPaths, 1);
    assert!(seen.iter().all(|&times| times == 1), "each once: {seen:?}");
    assert!(by_program > FLOWS, "{by_program} by the program, {by_host} by the host");
}

#[test]
fn the_host_does_where_no_program_can() {
    let (seen, by_host, by_program) = run(Framing::Plain, Over::Untold, 1);
    assert!(seen.iter().all(|&times| times == 1), "each once: {seen:?}");
    assert!(by_host > FLOWS && by_program == 0, "{by_program} by the program, {by_host} by the host");
}
