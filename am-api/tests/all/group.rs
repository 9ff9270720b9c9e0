//! A group: peers connect to its name, and each gets one member.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use am_api::{Connection, Endpoint, GroupMember, HandlerId, Node, Placement};

const WHO: HandlerId = HandlerId(0);
const PATIENCE: Duration = Duration::from_secs(30);

/// The threads of a group.
struct Group {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Group {
    /// Each member answers with its number.
    fn run(transports: Vec<String>, placement: Placement) -> Group {
        Group::begin(transports, placement, |_| ())
    }

    /// Each thread does this first, with its member's number.
    fn begin(transports: Vec<String>, placement: Placement, first: impl Fn(usize) + Clone + Send + 'static) -> Group {
        let is_over = Arc::<AtomicBool>::default();
        let members = GroupMember::group("server", transports, placement).unwrap();
        let thread = |member: GroupMember| {
            let (is_over, first) = (is_over.clone(), first.clone());
            std::thread::spawn(move || {
                first(member.number());
                let mut work = member.open().unwrap().endpoint("work").unwrap();
                let number = member.number() as u64;
                work.on_request(WHO, move |(), request| request.token.reply(WHO, &[number], b"").unwrap());
                while !is_over.load(Relaxed) {
                    work.wait(&mut (), Duration::from_millis(20));
                }
            })
        };
        let threads = members.into_iter().map(thread).collect();
        Group { is_over, threads }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        let results: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        assert!(std::thread::panicking() || results.iter().all(Result::is_ok));
    }
}

type Client = Endpoint<Vec<u64>>;

fn client_with_node(name: &str, transport: &str) -> (Node, Client) {
    let node = Node::open(name, transport).unwrap();
    let mut client = node.endpoint("client").unwrap();
    client.on_reply(WHO, |seen: &mut Vec<u64>, reply| seen.push(reply.word(0)));
    (node, client)
}

fn client(name: &str, transport: &str) -> Client {
    client_with_node(name, transport).1
}

fn connect(client: &mut Client, name: &str) -> Connection {
    let to = client.connect(name, "work").unwrap();
    let opened = client.wait_open(&mut vec![], to, PATIENCE);
    assert!(opened.is_ok(), "{name}: {opened:?}");
    to
}

/// Which member answers. The connection has its node's name.
fn member(client: &mut Client, to: Connection) -> u64 {
    let mut seen = vec![];
    client.try_request(to, WHO, &[], b"").unwrap();
    assert!(client.wait_until(&mut seen, PATIENCE, |seen| !seen.is_empty()));
    let name = if seen[0] == 0 { "server".to_owned() } else { format!("server#{}", seen[0]) };
    assert_eq!(client.peer(to).unwrap().node.as_str(), name);
    seen[0]
}

fn members_of(client: &mut Client, connections: usize) -> BTreeMap<u64, usize> {
    let mut count = BTreeMap::new();
    for _ in 0..connections {
        let to = connect(client, "server");
        *count.entry(member(client, to)).or_default() += 1;
    }
    count
}

#[test]
fn each_member_gets_its_share_of_the_connections() {
    let _group = Group::run(vec!["sim:9107".into(); 4], Placement::Load);
    let (node, mut client) = client_with_node("client", "sim:9107");
    // Three each, but a member that a busy machine silences loses a connection to the first each time.
    let chosen = members_of(&mut client, 12);
    let given_up = node.counters().get("members_given_up") as usize;
    let is_share = |member: u64| chosen.get(&member).is_some_and(|count| count + given_up >= 3);
    assert!((0..4).all(is_share) && chosen.values().sum::<usize>() == 12, "{chosen:?}, {given_up} times silent");
    // A peer can name a member.
    let third = connect(&mut client, "server#3");
    assert_eq!(member(&mut client, third), 3);
}

/// The cores where this thread may run, as the kernel lists them.
fn allowed_cores() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    list.trim().to_owned()
}

#[test]
fn each_member_may_have_a_pinned_thread() {
    // In turn, where the machine has fewer cores than the group has members.
    let first_of = |range: &str| range.split('-').map(|core| core.parse().unwrap()).collect::<Vec<usize>>();
    let list = allowed_cores();
    let cores: Vec<usize> = list.split(',').map(first_of).flat_map(|ends| ends[0]..=ends[ends.len() - 1]).collect();
    let (tell, told) = std::sync::mpsc::channel();
    let pin = move |number: usize| {
        let core = cores[number % cores.len()];
        am_api::pin(core).unwrap();
        tell.send((core.to_string(), allowed_cores())).unwrap();
    };
    let group = Group::begin(vec!["sim:9111".into(); 4], Placement::Load, pin);
    let mut client = client("client", "sim:9111");
    // Each by its name: on a busy machine a pinned member may be silent for so long that the first takes its peers.
    for number in 1..4 {
        let to = connect(&mut client, &format!("server#{number}"));
        assert_eq!(member(&mut client, to), number);
    }
    assert_eq!(allowed_cores(), list, "only the members' threads are pinned");
    drop(group);
    let pinned: Vec<(String, String)> = told.iter().collect();
    assert!(pinned.len() == 4 && pinned.iter().all(|(asked, allowed)| asked == allowed), "{pinned:?}");
}

#[test]
fn a_member_that_loses_its_connections_gets_the_next_ones() {
    let _group = Group::run(vec!["sim:9108".into(); 3], Placement::Load);
    let mut client = client("client", "sim:9108");
    let all: Vec<_> = (0..9).map(|_| connect(&mut client, "server")).collect();
    for to in all {
        if member(&mut client, to) == 1 {
            client.close(to);
        }
    }
    // The member learns of it a little later.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let to = connect(&mut client, "server");
        if member(&mut client, to) == 1 {
            break;
        }
        client.close(to);
        client.wait(&mut vec![], Duration::from_millis(50));
        assert!(Instant::now() < deadline, "the member without connections gets none");
    }
}

#[test]
fn all_connections_of_a_node_go_to_one_member_by_its_name() {
    let _group = Group::run(vec!["sim:9109".into(); 4], Placement::PeerName);
    for name in ["ann", "bob", "cy", "dee"] {
        let chosen = members_of(&mut client(name, "sim:9109"), 3);
        assert_eq!(chosen.len(), 1, "{name}: {chosen:?}");
        assert_eq!(members_of(&mut client(name, "sim:9109"), 2).keys().next(), chosen.keys().next());
    }
}

/// Frames are lost, doubled and reordered: an answer of the first member may come twice, and late.
#[test]
fn peers_find_their_members_on_a_bad_network() {
    let network = "sim:9110,loss=0.1,duplicate=0.2,reorder=0.2";
    let _group = Group::run(vec![network.into(); 3], Placement::Load);
    let mut client = client("client", network);
    let chosen = members_of(&mut client, 30);
    assert!(chosen.len() == 3 && chosen.values().all(|count| *count >= 5), "{chosen:?}");
}

#[test]
fn a_group_can_be_on_other_transports_too() {
    let name = format!("shm:group-{}", std::process::id());
    let _group = Group::run(vec![name.clone(); 2], Placement::Load);
    let mut client = client("client", &name);
    let (mut seen, start) = (BTreeSet::new(), Instant::now());
    // The first connections may come before the first member knows the second.
    while seen.len() < 2 {
        seen.extend(members_of(&mut client, 1).into_keys());
        assert!(start.elapsed() < PATIENCE, "the second member gets none");
    }
}
