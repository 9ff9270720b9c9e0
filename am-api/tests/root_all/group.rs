//! A group on the queues of one interface, a thread each. A frame on a veth arrives on the queue that it was sent on, so a peer reaches
//! the member on its own queue alone, whichever the group's first member names. Needs root.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use am_api::{GroupMember, HandlerId, Node, Placement};
use am_netns::{Host, VethOptions, veth};

const WHO: HandlerId = HandlerId(1);
const LONG: Duration = Duration::from_secs(60);
const MESSAGES: usize = 2_000;
const QUEUES: usize = 3;
/// Connections of each client.
const CONNECTIONS: usize = 3;

/// Answer with the member's number until the parent stops this process.
fn serve(member: &GroupMember, open: &AtomicUsize, stop: &AtomicBool) {
    let node = member.open().unwrap_or_else(|error| panic!("{error}"));
    let mut work = node.endpoint::<()>("work").unwrap();
    let number = member.number() as u64;
    work.on_request(WHO, move |(), request| request.token.reply(WHO, &[number], b"").unwrap());
    open.fetch_add(1, SeqCst);
    while !stop.load(Relaxed) {
        work.wait(&mut (), Duration::from_millis(5));
    }
}

/// Connect to the group's name some times, from a queue, and ask. All replies come from the member on that queue.
fn ask(queue: usize, peers_are_alone: bool) {
    let node = Node::open(&format!("client{queue}"), &format!("xdp:am0,queue={queue}")).unwrap();
    let mut client = node.endpoint("client").unwrap();
    client.on_reply(WHO, |seen: &mut Vec<u64>, reply| seen.push(reply.word(0)));
    for _ in 0..CONNECTIONS {
        let mut seen = vec![];
        let to = client.connect("server", "work").unwrap();
        let opened = client.wait_open(&mut seen, to, LONG);
        opened.unwrap_or_else(|error| panic!("from queue {queue}: {error}: {:?}", node.health()));
        for _ in 0..MESSAGES {
            client.request(&mut seen, to, WHO, &[], b"").unwrap();
        }
        assert!(client.wait_until(&mut seen, LONG, |seen| seen.len() == MESSAGES), "{} replies", seen.len());
        assert!(seen.iter().all(|number| *number == queue as u64), "from queue {queue}: member {}", seen[0]);
        let name = if queue == 0 { "server".to_owned() } else { format!("server#{queue}") };
        assert_eq!(client.peer(to).unwrap().node.as_str(), name);
        client.close(to);
    }
    // A client that shares its interface hears all members from its siblings; another one only the member that it reaches.
    let given_up = node.counters().get("members_given_up");
    assert!(given_up > 0 || peers_are_alone || queue == 0, "the first member is not reached from queue {queue}");
}

/// Clients on these queues, at the same time.
fn each_queue_gets_its_member(placement: Placement, queues: &[usize]) {
    let (here, there) = (Host::new("near").unwrap(), Host::new("far").unwrap());
    let options = VethOptions { queues: QUEUES as u32, ..VethOptions::default() };
    let (near, far) = veth(&here, "am0", &there, "am0", &options).unwrap();
    let members = GroupMember::group("server", GroupMember::queues("xdp:am0", QUEUES), placement).unwrap();
    let (stop, open) = (&AtomicBool::new(false), &AtomicUsize::new(0));
    thread::scope(|scope| {
        let (here, there) = (&here, &there);
        let serving: Vec<_> =
            members.into_iter().map(|it| scope.spawn(move || here.enter(|| serve(&it, open, stop)).unwrap())).collect();
        while open.load(SeqCst) < QUEUES && !serving.iter().any(|thread| thread.is_finished()) {
            thread::sleep(Duration::from_millis(5));
        }
        let ask = |&queue: &usize| scope.spawn(move || there.enter(|| ask(queue, queues.len() == 1)).unwrap());
        let asking: Vec<_> = queues.iter().map(ask).collect();
        let ended: Vec<_> = asking.into_iter().map(|thread| thread.join()).collect();
        stop.store(true, Relaxed);
        let served: Vec<_> = serving.into_iter().map(|thread| thread.join()).collect();
        served.into_iter().chain(ended).for_each(|ended| ended.unwrap());
    });
    assert!([near, far].iter().all(|end| end.loses_xdp().unwrap()), "the last node takes the program off");
}

#[test]
fn peers_of_each_queue_reach_its_member_by_load() {
    each_queue_gets_its_member(Placement::Load, &[0, 1, 2]);
}

#[test]
fn peers_of_each_queue_reach_its_member_by_name() {
    each_queue_gets_its_member(Placement::PeerName, &[0, 1, 2]);
}

/// Nothing on its interface hears the first member.
#[test]
fn a_peer_alone_on_the_last_queue_reaches_its_member() {
    each_queue_gets_its_member(Placement::Load, &[2]);
}
