//! Two cables between two hosts, and a node on both of them at each end: one is
//! taken down under load, at this end, comes back, and goes down at the other
//! end. Every message arrives, once. Needs root.

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use am_api::{Connection, Endpoint, HandlerId, Node, Request};
use am_multipath::Multipath;
use am_netns::{Host, VethOptions, veth};
use am_transport::Transport;
use am_wire::EtherType;

const TELL: HandlerId = HandlerId(1);
const LONG: Duration = Duration::from_secs(20);
const CABLES: [&str; 2] = ["am0", "am1"];

fn node(name: &str) -> Node {
    let ways = CABLES.map(|cable| {
        let transport = am_afxdp::open(&am_afxdp::XdpOptions::new(cable)).unwrap_or_else(|error| panic!("{error}"));
        Box::new(transport) as Box<dyn Transport>
    });
    let both = Multipath::new(ways.into(), EtherType::DEFAULT).unwrap();
    Node::builder(name).beacon(Duration::from_millis(100)).open_on(Box::new(both)).unwrap()
}

/// `ip link set am0 up`, or `down`.
fn set(host: &Host, state: &str) {
    let status = host.enter(|| Command::new("ip").args(["link", "set", CABLES[0], state]).status());
    assert!(status.unwrap().unwrap().success());
}

struct Sender<'a> {
    endpoint: Endpoint<()>,
    to: Connection,
    sent: u64,
    seen: &'a Mutex<Vec<u8>>,
}

impl Sender<'_> {
    fn tell(&mut self, count: u64) {
        let (until, start) = (self.sent + count, Instant::now());
        while self.sent < until {
            match self.endpoint.try_request(self.to, TELL, &[self.sent], &[self.sent as u8; 700]) {
                Ok(()) => self.sent += 1,
                Err(error) if error.is_temporary() => _ = self.endpoint.poll(&mut ()),
                Err(error) => panic!("after {}: {error}", self.sent),
            }
            assert!(start.elapsed() < LONG, "only {} of {until} left", self.sent);
        }
    }

    fn until(&mut self, what: &str, so: impl Fn(&mut Self) -> bool) {
        let start = Instant::now();
        while !so(self) {
            self.endpoint.wait(&mut (), Duration::from_millis(1));
            assert!(start.elapsed() < LONG, "never {what}; by {}", self.way());
        }
    }

    fn way(&self) -> String {
        self.endpoint.describe(self.to).and_then(|how| how.path).unwrap_or_default()
    }

    /// Everything that was sent so far has arrived, once.
    fn all_there(&mut self) {
        let sent = self.sent as usize;
        let seen = self.seen;
        self.until("all there", |_| seen.lock().unwrap().iter().take(sent).all(|&times| times > 0));
        assert!(seen.lock().unwrap().iter().take(sent).all(|&times| times == 1));
    }
}

/// Counts, on the other host, what arrives.
fn serve(seen: &Mutex<Vec<u8>>, stop: &AtomicBool) {
    let node = node("beta");
    let mut endpoint = node.endpoint::<&Mutex<Vec<u8>>>("app").unwrap();
    endpoint.on_request(TELL, |seen, Request { message, .. }| {
        assert!(message.payload().iter().all(|&byte| byte == message.word(0) as u8));
        seen.lock().unwrap()[message.word(0) as usize] += 1;
    });
    let mut state = seen;
    while !stop.load(Relaxed) {
        endpoint.wait(&mut state, Duration::from_millis(5));
    }
}

fn send(alpha: &Host, beta: &Host, seen: &Mutex<Vec<u8>>) {
    let node = node("alpha");
    let mut endpoint = node.endpoint::<()>("app").unwrap();
    let to = endpoint.connect("beta", "app").unwrap();
    endpoint.wait_open(&mut (), to, LONG).unwrap();
    let mut sender = Sender { endpoint, to, sent: 0, seen };
    sender.until("both known", |sender| sender.way().contains("the best of 2"));
    assert!(sender.way().starts_with("xdp:am0"), "{}", sender.way());
    for (host, is_own_end) in [(alpha, true), (beta, false)] {
        sender.tell(5_000);
        set(host, "down");
        sender.tell(5_000);
        sender.all_there();
        if is_own_end {
            let way = sender.way();
            assert!(way.starts_with("xdp:am1 (not xdp:am0: interface am0 is down"), "{way}");
        } else {
            // This end notices the silence. Frames that were on their way before can make it try that cable once more.
            sender.until("on the other cable", |sender| {
                sender.tell(1);
                sender.way().starts_with("xdp:am1 (not xdp:am0: ")
            });
        }
        set(host, "up");
        sender.until("back", |sender| sender.way().starts_with("xdp:am0"));
        sender.tell(5_000);
        sender.all_there();
    }
}

#[test]
fn a_cable_that_goes_down_under_load_costs_no_message() {
    let (alpha, beta) = (Host::new("alpha").unwrap(), Host::new("beta").unwrap());
    for cable in CABLES {
        veth(&alpha, cable, &beta, cable, &VethOptions::default()).unwrap();
    }
    let (seen, stop) = (Mutex::new(vec![0; 50_000]), AtomicBool::new(false));
    thread::scope(|scope| {
        let serving = scope.spawn(|| beta.enter(|| serve(&seen, &stop)).unwrap());
        let sent = thread::Builder::new().spawn_scoped(scope, || alpha.enter(|| send(&alpha, &beta, &seen)).unwrap());
        let sent = sent.unwrap().join();
        stop.store(true, Relaxed);
        serving.join().unwrap();
        sent.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
    });
}
