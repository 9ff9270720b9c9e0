//! Sixteen programs on a bridge that loses one frame in a hundred. Every few seconds two of them are killed, the sequencer among them,
//! and two others join.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use am_api::Node;
use am_netns::{Bridge, BridgeOptions, Host};
use am_ordered::{Delivered, Event, Group, Level, Replica, Settings};

use crate::LONG;

const MEMBERS: usize = 16;

/// The seconds of the test, or as many as `AM_ORDERED_SECONDS` says.
const SECONDS: u64 = 20;

/// Two members crash after this time, and two join after as long again.
const PERIOD: Duration = Duration::from_secs(5);

/// A member sends so often.
const PAUSE: Duration = Duration::from_millis(50);

/// Drops one frame in a hundred.
const LOSS: &str = r#"
typedef unsigned int u32;
static u32 (*random32)(void) = (void *)7;
__attribute__((section("xdp"), used)) int lose(void *frame) { return random32() % 100 == 0 ? 1 : 2; }
char terms[] __attribute__((section("license"), used)) = "GPL";
"#;

/// What a member prints. The digest is of all messages up to this one.
#[derive(Clone, Debug, PartialEq)]
enum Line {
    /// The number, whether it is safe, the digest.
    Delivered(u64, bool, u64),
    /// All before this number, with this digest, are in the state that it got.
    Restored(u64, u64),
    /// The members, and the sequencer's name.
    View(usize, String),
    /// What was delivered from this number on is void.
    Diverged(u64),
    /// Its credits are whole.
    Whole(bool),
    Ended(String),
}

impl Line {
    /// `None` if the line was cut by a crash.
    fn parse(line: &str) -> Option<Line> {
        let words: Vec<&str> = line.strip_suffix(" .")?.split(' ').collect();
        let number = |word: &str| word.parse::<u64>().ok();
        Some(match words[..] {
            ["d", at, safe, digest] => Line::Delivered(number(at)?, safe == "true", number(digest)?),
            ["s", at, digest] => Line::Restored(number(at)?, number(digest)?),
            ["v", members, sequencer] => Line::View(number(members)? as usize, sequencer.into()),
            ["x", at] => Line::Diverged(number(at)?),
            ["c", whole] => Line::Whole(whole == "true"),
            ["e", ..] => Line::Ended(words[1..].join(" ")),
            _ => return None,
        })
    }
}

#[derive(Default)]
struct Digest {
    next: u64,
    digest: u64,
}

impl Replica for Digest {
    fn deliver(&mut self, message: &Delivered<'_>) {
        let mut hasher = DefaultHasher::new();
        (self.digest, message.payload, message.from).hash(&mut hasher);
        (self.next, self.digest) = (message.number + 1, hasher.finish());
        println!("d {} {} {} .", message.number, message.level == Level::Safe, self.digest);
    }

    fn save(&self) -> Vec<u8> {
        [self.next, self.digest].map(u64::to_be_bytes).concat()
    }

    fn restore(&mut self, state: &[u8]) {
        let number = |at: usize| u64::from_be_bytes(state[at..at + 8].try_into().expect("eight bytes"));
        (self.next, self.digest) = (number(0), number(8));
        println!("s {} {} .", self.next, self.digest);
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::View(view) => {
                let sequencer = view.members.iter().find(|member| member.id == view.sequencer);
                println!("v {} {} .", view.members.len(), sequencer.map_or("", |member| &member.name));
            }
            Event::Diverged { from } => println!("x {from} ."),
            Event::Ended(why) => println!("e {why:?} ."),
            _ => (),
        }
    }
}

/// A program of the test.
#[test]
#[ignore = "started by sixteen_members_of_which_two_crash_and_two_join_keep_one_order"]
fn member() {
    let name = env::var("MEMBER").expect("the test starts it");
    let node = Node::open(&name, "xdp:am0").expect("a node");
    let contacts: Vec<String> =
        env::var("CONTACTS").unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    let group = match contacts.is_empty() {
        true => Group::found(&node, "g", Settings::default(), Digest::default()),
        false => Group::join(&node, "g", &contacts, Settings::default(), Digest::default()),
    };
    let mut group = group.expect("a name");
    let [is_quiet, is_over] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let said = [Arc::clone(&is_quiet), Arc::clone(&is_over)];
    // A byte: send no more. The end: check, and end.
    thread::spawn(move || {
        for said in said {
            _ = std::io::stdin().read(&mut [0]);
            said.store(true, Ordering::Relaxed);
        }
    });
    let (mut count, mut next) = (0_u64, Instant::now());
    while !is_over.load(Ordering::Relaxed) && group.ended().is_none() {
        group.wait(Duration::from_millis(5));
        if !is_quiet.load(Ordering::Relaxed) && next <= Instant::now() && group.is_primary() {
            (count, next) = (count + 1, Instant::now() + PAUSE);
            let level = if count % 2 == 0 { Level::Safe } else { Level::Agreed };
            _ = group.send(level, format!("{name} {count}"));
        }
    }
    println!("c {} .", group.has_whole_credits());
}

/// A started program, and what it has printed, with the time.
struct Program {
    name: String,
    place: usize,
    child: Child,
    lines: Arc<Mutex<Vec<(Instant, Line)>>>,
}

impl Drop for Program {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Program {
    fn start(host: &Host, place: usize, name: String, contacts: &str) -> Program {
        let start = || {
            Command::new(env::current_exe().expect("a path"))
                .args(["--ignored", "--exact", "sixteen::member", "--nocapture"])
                .envs([("MEMBER", &*name), ("CONTACTS", contacts)])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
        };
        let mut child = host.enter(start).expect("a namespace").expect("started");
        let printed = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let lines: Arc<Mutex<Vec<(Instant, Line)>>> = Arc::default();
        let to = Arc::clone(&lines);
        thread::spawn(move || {
            for line in printed.map_while(Result::ok).filter_map(|line| Line::parse(&line)) {
                to.lock().expect("no panic").push((Instant::now(), line));
            }
        });
        Program { name, place, child, lines }
    }

    fn last<T>(&self, find: impl Fn(&Line) -> Option<T>) -> Option<T> {
        self.lines.lock().expect("no panic").iter().rev().find_map(|(_, line)| find(line))
    }

    /// The members of its view, and the sequencer.
    fn view(&self) -> Option<(usize, String)> {
        self.last(|line| match line {
            Line::View(members, sequencer) => Some((*members, sequencer.clone())),
            _ => None,
        })
    }

    fn delivered(&self) -> Option<u64> {
        self.last(|line| match line {
            Line::Delivered(number, ..) => Some(*number),
            _ => None,
        })
    }

    fn ended(&self) -> Option<String> {
        self.last(|line| if let Line::Ended(why) = line { Some(why.clone()) } else { None })
    }

    /// By number: the digest, and whether it is safe. What is void is not there.
    fn log(&self) -> BTreeMap<u64, (u64, bool)> {
        let (mut log, lines) = (BTreeMap::new(), self.lines.lock().expect("no panic"));
        for (_, line) in &*lines {
            match *line {
                Line::Delivered(number, is_safe, digest) => _ = log.insert(number, (digest, is_safe)),
                Line::Restored(number, digest) if number > 0 => _ = log.insert(number - 1, (digest, false)),
                Line::Diverged(from) => _ = log.split_off(&from),
                _ => (),
            }
        }
        log
    }

    /// The longest time between two deliveries.
    fn silence(&self) -> Duration {
        let lines = self.lines.lock().expect("no panic");
        let times: Vec<Instant> =
            lines.iter().filter(|(_, line)| matches!(line, Line::Delivered(..))).map(|(at, _)| *at).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }
}

fn until(what: &str, members: &[Program], mut wanted: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !wanted() {
        let state = |member: &Program| {
            format!("\n{}: {:?}, {:?}, {:?}", member.name, member.view(), member.delivered(), member.ended())
        };
        let state = || members.iter().map(state).collect::<String>();
        assert!(Instant::now() < end, "{what}: {}", state());
        thread::sleep(Duration::from_millis(20));
    }
}

fn until_all_are_members(members: &[Program]) {
    let has_all = |member: &Program| member.view().is_some_and(|(count, _)| count == MEMBERS);
    until("not all are members", members, || members.iter().all(has_all));
}

/// How often a test has asked for losses: each gets a directory.
static LOSSES: AtomicUsize = AtomicUsize::new(0);

/// The ports of the bridge lose frames.
pub(crate) fn lose(bridge: &Bridge) {
    let number = LOSSES.fetch_add(1, Ordering::Relaxed);
    let directory = env::temp_dir().join(format!("am-ordered-loss-{}-{number}", std::process::id()));
    fs::create_dir_all(&directory).expect("room");
    let [source, object] = ["loss.c", "loss.o"].map(|name| directory.join(name));
    fs::write(&source, LOSS).expect("room");
    let run = |command: &mut Command| {
        let output = command.output().expect("a program");
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(Command::new("clang").args(["-O2", "-target", "bpf", "-c", "-o"]).arg(&object).arg(&source));
    for port in bridge.ports() {
        let attach = || {
            run(Command::new("ip")
                .args(["link", "set", "dev", port.name(), "xdp", "obj"])
                .arg(&object)
                .args(["sec", "xdp"]))
        };
        bridge.switch().enter(attach).expect("a namespace");
    }
    fs::remove_dir_all(directory).expect("written above");
}

#[test]
fn sixteen_members_of_which_two_crash_and_two_join_keep_one_order() {
    let hosts: Vec<_> = (0..MEMBERS).map(|number| Host::new(&format!("h{number}")).unwrap()).collect();
    let bridge = Bridge::new(&hosts.iter().collect::<Vec<_>>(), "am0", &BridgeOptions::default()).unwrap();
    lose(&bridge);
    let mut members = vec![Program::start(&hosts[0], 0, "m0".into(), "")];
    members.extend((1..MEMBERS).map(|place| Program::start(&hosts[place], place, format!("m{place}"), "m0")));
    until_all_are_members(&members);
    let seconds = env::var("AM_ORDERED_SECONDS").map_or(SECONDS, |seconds| seconds.parse().expect("a number"));
    let (mut crashed, mut generation, end) = (vec![], 0, Instant::now() + Duration::from_secs(seconds));
    while Instant::now() < end {
        thread::sleep(PERIOD);
        let (_, sequencer) = members[0].view().expect("a member");
        let first = members.iter().position(|member| member.name == sequencer).expect("it is alive");
        for at in [first, generation % (MEMBERS - 1)] {
            let mut victim = members.remove(at);
            victim.child.kill().expect("it runs");
            crashed.push(victim);
        }
        thread::sleep(PERIOD);
        generation += 1;
        let contacts = members.iter().map(|member| &*member.name).collect::<Vec<_>>().join(" ");
        for gone in &crashed[crashed.len() - 2..] {
            let name = format!("m{}-{generation}", gone.place);
            members.push(Program::start(&hosts[gone.place], gone.place, name, &contacts));
        }
        until_all_are_members(&members);
    }
    for member in &mut members {
        std::io::Write::write_all(member.child.stdin.as_mut().expect("a pipe"), b".").expect("it runs");
    }
    let mut last = (Instant::now(), vec![]);
    until("it does not come to rest", &members, || {
        let delivered: Vec<Option<u64>> = members.iter().map(Program::delivered).collect();
        if delivered != last.1 {
            last = (Instant::now(), delivered);
        }
        last.1.iter().all(|number| *number == last.1[0]) && last.0.elapsed() > Duration::from_secs(1)
    });
    for member in &mut members {
        drop(member.child.stdin.take());
        assert!(member.child.wait().expect("it ends").success(), "{}", member.name);
    }
    judge(&members, &crashed);
}

fn judge(members: &[Program], crashed: &[Program]) {
    let order = members[0].log();
    let mut order: BTreeMap<u64, u64> = order.into_iter().map(|(number, (digest, _))| (number, digest)).collect();
    for member in members {
        for (number, (digest, _)) in member.log() {
            assert_eq!(
                *order.entry(number).or_insert(digest),
                digest,
                "{} has another message at {number}",
                member.name
            );
        }
        let is_whole = member.last(|line| if let Line::Whole(whole) = line { Some(*whole) } else { None });
        assert_eq!(is_whole, Some(true), "the credits of {}", member.name);
        assert_eq!(member.ended(), None, "{}", member.name);
    }
    // A killed member's digest covers all that it has delivered before.
    for member in crashed {
        let log = member.log();
        let safe = log.iter().rev().find(|(_, (_, is_safe))| *is_safe);
        for (number, (digest, _)) in safe.into_iter().filter(|(number, _)| order.contains_key(number)) {
            assert_eq!(order[number], *digest, "a safe message of {} is lost", member.name);
        }
    }
    let silence = members.iter().map(Program::silence).max().unwrap_or_default();
    let last = order.last_key_value().map_or(0, |(number, _)| *number);
    println!("{} messages, {} crashes, longest time without a delivery {silence:?}", last + 1, crashed.len());
}
