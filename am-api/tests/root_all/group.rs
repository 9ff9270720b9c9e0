//! A group on the queues of one interface, a thread each. A frame on a veth arrives on the queue that it was sent on, so a peer on a queue
//! connects to the member on that queue; a NIC has rules that steer each member's frames to it. Needs root.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use am_api::{GroupMember, HandlerId, Node, Placement};
use am_netns::{Host, VethOptions, veth};

const WHO: HandlerId = HandlerId(1);
const LONG: Duration = Duration::from_secs(60);
const MESSAGES: usize = 2_000;

/// Answer with the member's number until told to stop.
fn serve(member: &GroupMember, stop: &AtomicBool) -> u64 {
    let node = member.open().unwrap_or_else(|error| panic!("{error}"));
    let mut work = node.endpoint::<()>("work").unwrap();
    let number = member.number() as u64;
    work.on_request(WHO, move |(), request| request.token.reply(WHO, &[number], b"").unwrap());
    while !stop.load(Relaxed) {
        work.wait(&mut (), Duration::from_millis(5));
    }
    node.counters().get("xdp_drop_wrong_queue")
}

/// Ask a member of the group, from a queue. All replies come from that member.
fn ask(member: &str, queue: usize) {
    let node = Node::open(&format!("client{queue}"), &format!("xdp:am0,queue={queue}")).unwrap();
    let mut client = node.endpoint("client").unwrap();
    client.on_reply(WHO, |seen: &mut Vec<u64>, reply| seen.push(reply.word(0)));
    let mut seen = vec![];
    let to = client.connect(member, "work").unwrap();
    client.wait_open(&mut seen, to, LONG).unwrap_or_else(|error| panic!("{member}: {error}: {:?}", node.health()));
    for _ in 0..MESSAGES {
        client.request(&mut seen, to, WHO, &[], b"").unwrap();
    }
    assert!(client.wait_until(&mut seen, LONG, |seen| seen.len() == MESSAGES), "{} replies", seen.len());
    assert!(seen.iter().all(|number| *number == queue as u64));
    assert_eq!(client.peer(to).unwrap().node.as_str(), member);
}

#[test]
fn each_member_of_a_group_serves_its_queue() {
    let (here, there) = (Host::new("near").unwrap(), Host::new("far").unwrap());
    let (near, far) = veth(&here, "am0", &there, "am0", &VethOptions { queues: 2, ..VethOptions::default() }).unwrap();
    let members = GroupMember::group("server", GroupMember::queues("xdp:am0", 2), Placement::Load).unwrap();
    assert_eq!(members.iter().map(GroupMember::name).collect::<Vec<_>>(), ["server", "server#1"]);
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        let here = &here;
        let serving: Vec<_> = members
            .into_iter()
            .map(|member| scope.spawn(move || here.enter(|| serve(&member, stop)).unwrap()))
            .collect();
        // The clients are nodes of one process on one interface too.
        let asking = ["server", "server#1"].into_iter().enumerate();
        let there = &there;
        let asking: Vec<_> =
            asking.map(|(queue, member)| scope.spawn(move || there.enter(|| ask(member, queue)).unwrap())).collect();
        let ended: Vec<_> = asking.into_iter().map(|thread| thread.join()).collect();
        stop.store(true, Relaxed);
        // Probes of the members that are on the other queue go astray; messages do not.
        let astray: Vec<u64> = serving.into_iter().map(|thread| thread.join().unwrap()).collect();
        ended.into_iter().for_each(|ended| ended.unwrap());
        assert!(astray.iter().all(|frames| *frames < MESSAGES as u64 / 2), "{astray:?}");
    });
    assert!([near, far].iter().all(|end| !end.has_xdp().unwrap()), "the last node takes the program off");
}
