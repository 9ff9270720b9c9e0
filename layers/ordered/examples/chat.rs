//! A log of chat lines that all members have in one order.
//!
//! ```text
//! chat alpha shm:lab                     founds the group; what is typed is sent
//! chat beta shm:lab alpha                joins by alpha; gets what was said before
//! ```

use std::env::args;
use std::error::Error;
use std::io::stdin;
use std::sync::mpsc::channel;
use std::thread::spawn;
use std::time::Duration;

use am_api::Node;
use am_ordered::{Delivered, Event, Group, Level, Replica, Settings};

#[derive(Default)]
struct Chat(String);

impl Replica for Chat {
    fn deliver(&mut self, line: &Delivered<'_>) {
        let said = format!("{}: {}\n", line.from, String::from_utf8_lossy(line.payload));
        print!("{said}");
        self.0 += &said;
    }

    fn save(&self) -> Vec<u8> {
        self.0.clone().into()
    }

    fn restore(&mut self, said: &[u8]) {
        self.0 = String::from_utf8_lossy(said).into();
        print!("{}", self.0);
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::View(view) => {
                println!("members: {}", view.members.iter().map(|member| &*member.name).collect::<Vec<_>>().join(", "));
            }
            other => println!("{other:?}"),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = args().collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [_, name, on, contacts @ ..] = &args[..] else { return Err("chat NAME TRANSPORT [CONTACT..]".into()) };
    let node = Node::open(name, on)?;
    let mut group = match contacts {
        [] => Group::found(&node, "chat", None, Settings::default(), Chat::default())?,
        _ => Group::join(&node, "chat", contacts, Settings::default(), Chat::default())?,
    };
    let (typed, lines) = channel();
    spawn(move || stdin().lines().map_while(Result::ok).try_for_each(|line| typed.send(line)));
    while group.ended().is_none() {
        match lines.try_recv() {
            Ok(line) => _ = group.send(Level::Safe, line)?,
            Err(std::sync::mpsc::TryRecvError::Disconnected) if group.waiting() == 0 => break,
            Err(_) => (),
        }
        group.wait(Duration::from_millis(20));
    }
    group.leave(Duration::from_secs(2));
    Ok(())
}
