//! A server whose handler takes longer than its client's patience, and what both hear of it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use am_api::{ConnectionChange, Endpoint, HandlerId, Node, Problem, Request};

const WORK: HandlerId = HandlerId(0);
const NOTE: HandlerId = HandlerId(1);
const LONG: Duration = Duration::from_secs(60);
/// More than twice the usual patience.
const BUSY: Duration = Duration::from_millis(3_500);
const REQUESTS: u64 = 3;

/// What the client's handlers note.
#[derive(Debug, Default)]
pub struct Noted {
    /// The numbers of the replies.
    pub replies: Vec<u64>,
    /// The reason of each message that returned.
    pub came_back: Vec<String>,
    /// The reason of each end of a connection.
    pub ended: Vec<String>,
}

/// A client's endpoint.
pub fn asking(node: &Node) -> Endpoint<Noted> {
    let mut endpoint: Endpoint<Noted> = node.endpoint("main").unwrap();
    endpoint.on_reply(WORK, |noted, reply| noted.replies.push(reply.word(0)));
    endpoint.on_returned(|noted, back| noted.came_back.push(format!("{} {:?}", back.reason, back.fate)));
    endpoint.on_connection(|noted, event| match event.change {
        ConnectionChange::Ended(reason) => noted.ended.push(reason.to_string()),
        ConnectionChange::Failed(why) => noted.ended.push(why.to_string()),
        _ => {}
    });
    endpoint
}

/// Serve until `stop`. Each request to `WORK` takes `busy`. Returns whether the node was found late.
pub fn serve(node: &Node, busy: Duration, stop: &AtomicBool) -> bool {
    let mut endpoint: Endpoint<()> = node.endpoint("main").unwrap();
    endpoint.on_request(WORK, move |(), Request { message, token }| {
        thread::sleep(busy);
        token.reply(WORK, message.words(), b"").unwrap();
    });
    endpoint.on_request(NOTE, |(), _| ());
    let mut was_late = false;
    while !stop.load(Relaxed) {
        endpoint.wait(&mut (), Duration::from_millis(50));
        was_late |= matches!(node.health(), Err(Problem::Late(late)) if late >= busy / 2);
    }
    was_late && node.counters().get("late") > 0
}

/// A server opens its node, is busy and answers; the client loses nothing, and one that comes meanwhile gets its connection. `server` is
/// called on a thread of its own, and `client` with a name and the server's address: first for the client, then for the newcomer.
/// `None`: there is no room for it.
pub fn loses_nothing(server: impl FnOnce() -> Node + Send, mut client: impl FnMut(&str, &str) -> Option<Node>) {
    let stop = AtomicBool::new(false);
    let (tell, address) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let node = server();
            tell.send(node.local_address()).unwrap();
            serve(&node, BUSY, &stop)
        });
        let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let place = address.recv().unwrap();
            ask(&client("alpha", &place).unwrap(), || client("gamma", &place));
        }));
        stop.store(true, Relaxed);
        let was_late = serving.join().unwrap();
        asked.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
        assert!(was_late, "the late program hears of it");
    });
}

fn ask(node: &Node, newcomer: impl FnOnce() -> Option<Node>) {
    let (mut endpoint, mut noted) = (asking(node), Noted::default());
    let to = endpoint.connect("beta", "main").unwrap();
    endpoint.wait_open(&mut noted, to, LONG).unwrap_or_else(|error| panic!("{error}"));
    let start = Instant::now();
    endpoint.try_request(to, WORK, &[1], b"").unwrap();
    endpoint.wait(&mut noted, Duration::from_millis(100));
    for number in 2..=REQUESTS {
        endpoint.try_request(to, WORK, &[number], b"").unwrap();
    }
    // A second connection is asked for while the server does not poll, and one by a node that has never heard of it.
    let mut longest = Duration::ZERO;
    let second = endpoint.connect("beta", "main").unwrap();
    let newcomer = newcomer();
    let mut others = newcomer.iter().map(asking).collect::<Vec<_>>();
    let third = others.first().map(|other| other.connect("beta", "main").unwrap());
    let mut others_noted = Noted::default();
    let is_connected = |others: &[Endpoint<Noted>]| others.iter().zip(third).all(|(other, third)| other.is_open(third));
    while noted.replies.len() < REQUESTS as usize || !endpoint.is_open(second) || !is_connected(&others) {
        endpoint.wait(&mut noted, Duration::from_millis(50));
        for other in &mut others {
            other.wait(&mut others_noted, Duration::from_millis(50));
        }
        assert!(others_noted.ended.is_empty(), "{others_noted:?} after {:?}", start.elapsed());
        longest = longest.max(endpoint.not_polling_for(to).unwrap_or_default());
        assert!(noted.came_back.is_empty() && noted.ended.is_empty(), "{noted:?} after {:?}", start.elapsed());
        assert!(start.elapsed() < LONG, "{noted:?}\n{}", node.counters());
    }
    assert_eq!(noted.replies, [1, 2, 3]);
    assert!(longest >= BUSY / 4, "the client hears since when its server does not poll: {longest:?}");
}
