//! A log of chat lines in one order for all. `chat alpha shm:lab` founds the group; `chat beta shm:lab alpha` joins it by alpha.

use am_api::Node;
use am_ordered::{Delivered, Event, Group, Level, Replica, Settings};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::{env::args, error::Error, io::stdin, sync::mpsc, thread, time::Duration};

#[derive(Default)]
struct Chat(Vec<u8>);

impl Replica for Chat {
    fn deliver(&mut self, line: &Delivered<'_>) {
        let said = format!("{}: {}\n", line.from, String::from_utf8_lossy(line.payload));
        print!("{said}");
        self.0.extend(said.bytes());
    }

    fn save(&self) -> Vec<u8> {
        self.0.clone()
    }

    fn restore(&mut self, said: &[u8]) {
        self.0 = said.into();
        print!("{}", String::from_utf8_lossy(said));
    }

    fn event(&mut self, event: &Event) {
        println!("* {event}");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = args().skip(1).collect();
    let [name, transport, contacts @ ..] = &args[..] else { return Err("chat NAME TRANSPORT [MEMBER..]".into()) };
    let node = Node::open(name, transport)?;
    let mut group = match contacts {
        [] => Group::found(&node, "chat", Settings::default(), Chat::default())?,
        _ => Group::join(&node, "chat", contacts, Settings::default(), Chat::default())?,
    };
    let (typed, lines) = mpsc::channel();
    thread::spawn(move || stdin().lines().map_while(Result::ok).try_for_each(|line| typed.send(line)));
    // A member that leaves counts for no majority any more; one that crashed does.
    let (mut signals, mut known) = (Signals::new([SIGINT, SIGTERM])?, None);
    while group.ended().is_none() && signals.pending().next().is_none() {
        let trouble = group.health();
        if let (Some(trouble), true) = (&trouble, trouble != known) {
            eprintln!("{trouble}");
        }
        known = trouble;
        match lines.try_recv() {
            Ok(line) => _ = group.send(Level::Safe, line)?,
            Err(mpsc::TryRecvError::Disconnected) => break,
            Err(mpsc::TryRecvError::Empty) => _ = group.wait(Duration::from_millis(20)),
        }
    }
    group.leave(Duration::from_secs(2)).map(drop).map_err(Into::into)
}
