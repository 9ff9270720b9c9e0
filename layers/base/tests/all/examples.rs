//! The example as programs.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::{env, process};

/// A run of the example, where cargo has put it beside this test. It ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        _ = (self.0.kill(), self.0.wait());
    }
}

fn start(arguments: &[&str]) -> Running {
    let mut path = env::current_exe().expect("a path");
    path.pop();
    path.pop();
    let path = path.join("examples/publisher");
    assert!(path.exists(), "{} is not there: cargo build -p am-base --example publisher", path.display());
    let mut command = Command::new(path);
    Running(command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started"))
}

/// What it prints, and what it complains of, until its end.
fn printed(mut of: Running) -> (String, String) {
    let (mut out, mut errors) = Default::default();
    of.0.stdout.take().expect("a pipe").read_to_string(&mut out).expect("text");
    of.0.stderr.take().expect("a pipe").read_to_string(&mut errors).expect("text");
    of.0.wait().expect("its end");
    (out, errors)
}

#[test]
fn the_slow_one_gets_the_latest_and_the_fast_ones_all() {
    const COUNT: u64 = 2000;
    let own = process::id();
    for scheme in ["shm", "udp", "tcp"] {
        let [low, high] = (own as u16).to_be_bytes();
        let local = |host: u8| format!("127.{high}.{low}.{host}:7000");
        let on = |host: u8| match scheme {
            "shm" => format!("shm:am-publisher-{own}"),
            _ if host == 1 => format!("{scheme}:{}", local(1)),
            _ => format!("{scheme}:{},peer={}", local(host), local(1)),
        };
        let mut server = start(&["serve", "3", &COUNT.to_string(), &on(1)]);
        let mut line = String::new();
        let mut out = BufReader::new(server.0.stdout.take().expect("a pipe"));
        out.read_line(&mut line).expect("text");
        assert!(line.starts_with("serving on "), "{scheme}: {line}");
        let fast = [2, 3].map(|host| start(&["read", &on(host)]));
        let slow = start(&["read-slowly", &on(4)]);
        for fast in fast {
            let all = format!("got {COUNT} in order, missed 0, the last one was {COUNT}\n");
            assert_eq!(printed(fast), (all, String::new()), "{scheme}");
        }
        let (text, errors) = printed(slow);
        let numbers: Vec<u64> = text.split(|c: char| !c.is_ascii_digit()).flat_map(str::parse).collect();
        let &[got, missed, last] = &*numbers else { panic!("{scheme}: {text}{errors}") };
        assert!(errors.is_empty() && text.contains("in order"), "{scheme}: {text}{errors}");
        assert_eq!((got + missed, last), (COUNT, COUNT), "{scheme}");
        // It would have needed 40 s for all of them.
        assert!(missed > 0, "{scheme}: {text}");
        let mut rest = String::new();
        out.read_to_string(&mut rest).expect("text");
        // They have ended by then, some or all, and lacked nothing.
        assert!(rest.contains("lost: 0") && rest.contains(&format!("missed: {missed}")), "{scheme}: {rest}");
    }
}

#[test]
fn what_cannot_be_is_said() {
    for (arguments, says) in [
        (&[][..], "usage: publisher serve"),
        (&["serve", "x", "1", "sim:1"], "two numbers"),
        (&["read", "moon:7"], "there is no transport `moon`"),
    ] {
        let (out, errors) = printed(start(arguments));
        assert!(out.is_empty() && errors.starts_with("publisher: ") && errors.contains(says), "{out}{errors}");
    }
}
