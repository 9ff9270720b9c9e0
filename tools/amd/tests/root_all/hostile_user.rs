//! Programs of two users on one NIC. One of them is hostile for as long as the other talks: the other loses nothing, and is not read.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use am_api::{Endpoint, Node};
use am_daemon::admin::PortListing;
use am_netns::{Host, VethOptions, veth};
use am_transport::Transport;
use am_wire::control::{Control, NodeId, Probe, Step};
use am_wire::{Address, Buffer, Flow, Framing, Kind};

use crate::common::{list, port, until};
use crate::intruder::{Intruder, header, name};
use crate::scribbler::Scribbler;
use crate::users::{ECHO, Place, ROLE, daemon, program, succeeds, test_of};

const HONEST: u32 = 20_001;
const SERVER: u32 = 20_002;
const HOSTILE: u32 = 20_003;

const SCRIBBLES: u64 = 1_000_000;

/// In each message of the honest programs, and in no other.
const SECRET: [u8; 32] = *b"nobody else may read this secret";

/// Round trips before the hostile program begins.
const ALONE: usize = 2_000;

/// What the processes tell each other: a file for each.
struct Signs<'a>(&'a Path);

impl Signs<'_> {
    fn set(&self, sign: &str, text: &str) {
        std::fs::write(self.0.join(sign), text).unwrap();
    }

    fn is_set(&self, sign: &str) -> bool {
        self.0.join(sign).exists()
    }

    fn read(&self, sign: &str) -> String {
        std::fs::read_to_string(self.0.join(sign)).unwrap()
    }
}

#[test]
fn one_user_loses_nothing_to_another_that_is_hostile() {
    let hosts = ["amd-honest", "amd-far"].map(|name| Host::new(name).expect("root"));
    let _ends = veth(&hosts[0], "am0", &hosts[1], "am0", &VethOptions::default()).unwrap();
    let place = Place::new();
    let [near, far] = [place.path("near.sock"), place.path("far.sock")];
    let _daemons = [daemon(&hosts[0], &place, &near, &[]), daemon(&hosts[1], &place, &far, &[])];
    let _server = program(SERVER, &place, "beta", &far);
    until("the server has its name", || port(&far, "beta").is_some());

    let role = |what: &str| format!("{what} {}", place.path("").display());
    let honest = test_of(HONEST, &place, "hostile_user::the_role_of_one_of_two", &role("honest"));
    let hostile = test_of(HOSTILE, &place, "hostile_user::the_role_of_one_of_two", &role("hostile"));
    let signs = place.path("");
    let signs = Signs(&signs);
    // Ports of the hostile user come and go, and take their counts along.
    let mut reasons = std::collections::BTreeSet::new();
    until("the hostile program has done its worst", || {
        let its = list(&near).ports.into_iter().filter(|port| port.uid == HOSTILE);
        reasons.extend(its.flat_map(|port| port.refused.into_keys()));
        std::thread::sleep(Duration::from_millis(10));
        signs.is_set("done")
    });
    succeeds(honest);
    succeeds(hostile);
    println!("{}\n{}\nrefused as {reasons:?}", signs.read("latency"), signs.read("hostile"));
    for reason in ["malformed", "bad_source", "bad_name", "not_granted"] {
        assert!(reasons.contains(reason), "the hostile program was not refused as {reason}: {reasons:?}");
    }
}

/// The honest or the hostile program, in a process of its user.
#[test]
fn the_role_of_one_of_two() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (role, place) = role.split_once(' ').unwrap();
    let (signs, socket) = (Signs(Path::new(place)), Path::new(place).join("near.sock"));
    if role == "honest" { be_honest(&signs, &socket) } else { be_hostile(&signs, &socket) }
}

/// One round trip.
fn trip(endpoint: &mut Endpoint<u64>, count: &mut u64, to: am_api::Connection) -> Duration {
    let (start, before) = (Instant::now(), *count);
    endpoint.try_request(to, ECHO, &[], &SECRET).unwrap();
    until("the reply", || {
        endpoint.poll(count);
        *count > before
    });
    start.elapsed()
}

fn be_honest(signs: &Signs<'_>, socket: &Path) {
    let node = Node::open("alpha", &format!("amd:{}", socket.display())).unwrap();
    let mut endpoint = node.endpoint("main").unwrap();
    endpoint.on_reply(ECHO, |count: &mut u64, reply| {
        assert_eq!(reply.payload(), SECRET);
        *count += 1;
    });
    endpoint.on_returned(|_, returned| panic!("a message came back: {:?}", returned.reason));
    let (mut count, to) = (0, endpoint.connect("beta", "main").unwrap());
    endpoint.wait_open(&mut count, to, crate::common::PATIENCE).unwrap();
    let mut alone: Vec<_> = (0..ALONE).map(|_| trip(&mut endpoint, &mut count, to)).collect();
    signs.set("talking", "");
    until("the hostile program begins", || signs.is_set("begun"));
    let (mut beside, mut together) = (vec![], 0);
    while !signs.is_set("done") {
        beside.extend((0..20).map(|_| trip(&mut endpoint, &mut count, to)));
        // And many under way together.
        let asked = (0..64).take_while(|_| endpoint.try_request(to, ECHO, &[], &SECRET).is_ok()).count() as u64;
        let all = count + asked;
        until("all replies", || {
            endpoint.poll(&mut count);
            count == all
        });
        together += asked;
    }
    assert!(endpoint.is_open(to), "it is still the same connection");
    // In all this time it sent again what was lost on the way, and no reply is missing.
    assert_eq!(count, (alone.len() + beside.len()) as u64 + together);
    assert!(beside.len() > 100, "the two did not overlap: {} round trips", beside.len());
    let own = port(socket, "alpha").unwrap();
    assert!(is_untouched(&own), "{own:?}");
    [&mut alone, &mut beside].into_iter().for_each(|trips| trips.sort_unstable());
    let median = |trips: &[Duration]| trips[trips.len() / 2];
    let (alone, beside, trips) = (median(&alone), median(&beside), beside.len());
    signs.set(
        "latency",
        &format!("round trip, p50: {alone:?} alone, {beside:?} in {trips} trips beside the hostile program"),
    );
}

/// Nothing was refused of it, and nothing sent as it was counted for it.
fn is_untouched(own: &PortListing) -> bool {
    own.uid == HONEST && own.refused.is_empty()
}

fn be_hostile(signs: &Signs<'_>, socket: &Path) {
    until("the other talks", || signs.is_set("talking"));
    let victim = port(socket, "alpha").unwrap();
    cannot_open(victim.pid);
    signs.set("begun", "");
    let is_done = AtomicBool::new(false);
    let text = std::thread::scope(|scope| {
        let flood = scope.spawn(|| flood(socket, victim.address.parse().unwrap(), &is_done));
        let spy = scope.spawn(|| sees_only_its_own(socket, &is_done));
        let mut scribbler = Scribbler::attach(socket, 7);
        (0..SCRIBBLES).for_each(|_| scribbler.scribble());
        is_done.store(true, Relaxed);
        let (sent, seen) = (flood.join().unwrap(), spy.join().unwrap());
        format!(
            "{SCRIBBLES} scribbles, attached {} times; {sent} forged frames; {seen} frames seen",
            scribbler.attached
        )
    });
    signs.set("hostile", &text);
    signs.set("done", "");
}

/// The other's memory and descriptors are its user's alone.
fn cannot_open(pid: i32) {
    for of in ["fd", "map_files"] {
        let why = std::fs::read_dir(format!("/proc/{pid}/{of}")).unwrap_err();
        assert_eq!(why.kind(), std::io::ErrorKind::PermissionDenied, "{of}");
    }
    for of in ["mem", "maps", "fd/3"] {
        let why = std::fs::File::open(format!("/proc/{pid}/{of}")).unwrap_err();
        assert_eq!(why.kind(), std::io::ErrorKind::PermissionDenied, "{of}");
    }
}

/// Sends as the victim, under its name, on its flows, and to it.
fn flood(socket: &Path, victim: Address, is_done: &AtomicBool) -> u64 {
    let mut sent = 0;
    while !is_done.load(Relaxed) {
        let mut mallory = Intruder::attach(socket);
        mallory.introduce("mallory");
        let (own, node) = (mallory.address(), NodeId::of(&name("mallory")));
        let probe = Control::Probe(Probe { id: 1, node, step: Step::True });
        let message = |from, flow| {
            let flow = Flow::new(flow).unwrap();
            mallory.frame(victim, from, Framing::Plain, &header(Kind::Request, flow), b"forged")
        };
        let alpha = mallory.beacon(NodeId::of(&name("alpha")), name("alpha"), own);
        let frames = [
            mallory.control(victim, own, &probe),
            message(own, 1),
            message(own, 7),
            message(victim, 1),
            mallory.control(victim, victim, &probe),
            mallory.control(Address::BROADCAST, own, &alpha),
        ];
        let mut is_attached = true;
        while is_attached && !is_done.load(Relaxed) {
            for frame in &frames {
                // A full lane refuses some.
                sent += u64::from(mallory.port.send(victim, frame));
            }
            mallory.port.flush();
            mallory.port.receive(64, &mut |_| ());
            mallory.port.poll_notices(&mut |notice| {
                is_attached &=
                    !matches!(notice, am_transport::Notice::LinkError(why) if why.contains("detached this program"));
            });
            std::thread::yield_now();
        }
    }
    sent
}

/// Whether these bytes have others in them.
fn has(bytes: &[u8], others: &[u8]) -> bool {
    bytes.windows(others.len()).any(|window| window == others)
}

/// A port that only looks, at the frames that it gets and at the bytes of its region.
fn sees_only_its_own(socket: &Path, is_done: &AtomicBool) -> u64 {
    let before = regions();
    let mut spy = Intruder::attach(socket);
    let own: Vec<_> = regions().into_iter().filter(|region| !before.contains(region)).collect();
    spy.introduce("spy");
    let asks = spy.beacon(NodeId::of(&name("spy")), name("spy"), spy.address());
    let Control::Beacon(asks) = asks else { panic!("it is a beacon") };
    let asks = Control::Beacon(am_wire::control::Beacon { purpose: am_wire::control::Purpose::Ask, ..asks });
    let frame = spy.control(Address::BROADCAST, spy.address(), &asks);
    let (mut seen, mut hears_alpha, address) = (0, false, spy.address());
    let start = Instant::now();
    while !is_done.load(Relaxed) || (!hears_alpha && start.elapsed() < crate::common::PATIENCE) {
        // Others answer it, so it does read what is for it.
        _ = spy.port.send(Address::BROADCAST, &frame);
        spy.port.flush();
        spy.port.receive(64, &mut |frame| {
            let bytes = frame.bytes();
            let to = am_daemon::judge::destination(bytes);
            assert!(to == address || to.is_group(), "a frame to {to}");
            assert!(!has(bytes, &SECRET), "a message of others");
            (seen, hears_alpha) = (seen + 1, hears_alpha || has(bytes, b"alpha"));
        });
        std::thread::sleep(Duration::from_millis(1));
    }
    let memory = std::fs::File::open("/proc/self/mem").unwrap();
    assert!(!own.is_empty(), "its region is mapped");
    let mut hears_in_memory = false;
    for (begin, end) in own {
        let mut bytes = vec![0; (end - begin) as usize];
        // Another thread of this program may have attached meanwhile, and ended.
        if memory.read_exact_at(&mut bytes, begin).is_ok() {
            assert!(!has(&bytes, &SECRET), "a message of others is in the memory");
            hears_in_memory |= has(&bytes, b"alpha");
        }
    }
    assert!(hears_alpha && hears_in_memory, "it reads what is for it");
    seen
}

/// Where this process has mapped regions that it shares with a daemon.
fn regions() -> Vec<(u64, u64)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let number = |text| u64::from_str_radix(text, 16).unwrap();
    let ours = maps.lines().filter(|line| line.contains("memfd:amd-port"));
    let ranges = ours.map(|line| line.split_once(' ').unwrap().0.split_once('-').unwrap());
    ranges.map(|(begin, end)| (number(begin), number(end))).collect()
}
