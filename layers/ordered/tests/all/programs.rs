//! The example as programs: what each of them prints is what the group said, in one order.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio, id};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const LONG: Duration = Duration::from_secs(30);

/// A program, and the lines that it has printed. It ends with the test.
struct Chat {
    child: Child,
    typed: Option<ChildStdin>,
    printed: Arc<Mutex<Vec<String>>>,
}

impl Drop for Chat {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Chat {
    fn start(arguments: &[&str]) -> Chat {
        let mut path = env::current_exe().expect("a path");
        path.pop();
        path.pop();
        let path = path.join("examples/chat");
        assert!(path.exists(), "{} is not there: cargo build -p am-ordered --example chat", path.display());
        let piped = Command::new(path).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = piped.expect("started");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let printed: Arc<Mutex<Vec<String>>> = Arc::default();
        let to = Arc::clone(&printed);
        thread::spawn(move || lines.map_while(Result::ok).for_each(|line| to.lock().expect("no panic").push(line)));
        Chat { typed: child.stdin.take(), child, printed }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.typed.as_mut().expect("a pipe"), "{line}").expect("it runs");
    }

    /// The lines of the group, without reports.
    fn said(&self) -> Vec<String> {
        self.printed.lock().expect("no panic").iter().filter(|line| !line.starts_with('*')).cloned().collect()
    }

    /// The last reported members.
    fn members(&self) -> usize {
        let printed = self.printed.lock().expect("no panic");
        let last = printed.iter().rev().find_map(|line| line.strip_prefix("* members: "));
        last.map_or(0, |names| names.split(", ").count())
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("it runs");
    }
}

fn until(chats: &[Chat], what: &str, wanted: impl Fn(&Chat) -> bool) {
    let end = Instant::now() + LONG;
    while !chats.iter().all(&wanted) {
        let printed: Vec<Vec<String>> =
            chats.iter().map(|chat| chat.printed.lock().expect("no panic").clone()).collect();
        assert!(Instant::now() < end, "{what}: {printed:#?}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn three(what: &str) -> Vec<Chat> {
    let place = format!("shm:am-ordered-{what}-{}", id());
    let alpha = Chat::start(&["alpha", &place]);
    let joins = |name| Chat::start(&[name, &place, "alpha"]);
    let chats = vec![alpha, joins("beta"), joins("gamma")];
    until(&chats, "three members", |chat| chat.members() == 3);
    chats
}

fn one_order(chats: &[Chat], count: usize) {
    until(chats, "all lines", |chat| chat.said().len() == count);
    assert!(chats.iter().all(|chat| chat.said() == chats[0].said()), "one order");
}

#[test]
fn a_killed_sequencer_is_replaced_and_nothing_is_lost() {
    let mut chats = three("killed");
    for round in 0..10 {
        chats.iter_mut().for_each(|chat| chat.say(&format!("{round}")));
    }
    one_order(&chats, 30);
    chats[0].signal(Signal::SIGKILL);
    chats.remove(0);
    for round in 10..20 {
        chats.iter_mut().for_each(|chat| chat.say(&format!("{round}")));
    }
    one_order(&chats, 50);
}

#[test]
fn a_stopped_sequencer_loses_its_work_and_stays_a_member() {
    let mut chats = three("stopped");
    chats[0].say("before");
    one_order(&chats, 1);
    chats[0].signal(Signal::SIGSTOP);
    let (stopped, others) = chats.split_at_mut(1);
    others.iter_mut().for_each(|chat| chat.say("meanwhile"));
    one_order(others, 3);
    stopped[0].signal(Signal::SIGCONT);
    stopped[0].say("after");
    one_order(&chats, 4);
    assert!(chats.iter().all(|chat| chat.members() == 3));
}

#[test]
fn a_member_that_ends_leaves_and_one_that_comes_gets_all() {
    let mut chats = three("comes");
    chats[2].say("good bye");
    chats[2].typed = None;
    assert!(chats[2].child.wait().expect("it ends").success());
    chats.pop();
    one_order(&chats, 1);
    until(&chats, "two members", |chat| chat.members() == 2);
    let place = format!("shm:am-ordered-comes-{}", id());
    chats.push(Chat::start(&["delta", &place, "beta"]));
    until(&chats, "three members", |chat| chat.members() == 3);
    chats[2].say("hello");
    one_order(&chats, 2);
}
