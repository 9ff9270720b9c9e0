//! The first active messages: a request, the function it runs, the reply.
//!
//!     ping                                                     both sides in one process
//!     ping sim:7,loss=0.01                                     the same on a network that loses one frame of a hundred
//!     ping serve xdp:eth1                                      on one machine: the node "beta"
//!     ping beta xdp:eth1                                       on the other
//!     ping serve udp:10.0.0.7:7000                             over any other transport, too
//!     ping beta udp:10.0.0.8:7000,peer=10.0.0.7:7000
//!     ping serve shm:lab+udp:10.0.0.7:7000                     or over several at once

use std::error::Error;
use std::io::{Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use am_api::{HandlerId, Node, Request};

/// Indices into the receiver's tables of handlers: requests have one table, replies another.
const PING: HandlerId = HandlerId(0);
const PONG: HandlerId = HandlerId(0);
const SECONDS: Duration = Duration::from_secs(10);
const USAGE: &str = "\
usage:
  ping                    both sides in one process, over sim:1
  ping TRANSPORT          both sides in one process, as in: ping sim:7,loss=0.01 or: ping shm:lab
  ping serve TRANSPORT    the node \"beta\", which answers, as in: ping serve xdp:eth1
  ping beta TRANSPORT     asks \"beta\", as in: ping beta udp:10.0.0.8:7000,peer=10.0.0.7:7000
exit codes: 0 all was answered, or this help; 1 it failed; 2 wrong arguments";

fn serve(on: &str, stop: &AtomicBool) -> Result<(), Box<dyn Error>> {
    let node = Node::open("beta", on)?;
    _ = writeln!(stderr(), "beta serves on {}; Ctrl-C ends it", node.transport());
    let mut endpoint = node.endpoint("ping")?;
    endpoint.on_request(PING, |(), Request { message, token }| {
        token.reply(PONG, message.words(), message.payload()).unwrap_or_else(|error| _ = writeln!(stderr(), "{error}"));
    });
    let mut known = Ok(());
    while !stop.load(SeqCst) {
        endpoint.wait(&mut (), SECONDS / 200);
        let health = node.health();
        // After `stop` is set, alpha's node closes, and that is no problem to report.
        if let (Err(problem), true) = (&health, health != known && !stop.load(SeqCst)) {
            _ = writeln!(stderr(), "beta: {problem}");
        }
        known = health;
    }
    Ok(())
}

/// It sets `done` when all is answered, before its node closes.
fn ping(peer: &str, on: &str, done: &AtomicBool) -> Result<(), Box<dyn Error>> {
    // Any number of these may run at a time.
    let node = Node::builder("alpha").unique_name().open(on)?;
    let mut endpoint = node.endpoint("ping")?;
    endpoint.on_reply(PONG, |last, reply| *last = reply.word(0));
    let (mut last, to) = (0, endpoint.connect(peer, "ping")?);
    endpoint.wait_open(&mut last, to, SECONDS)?;
    writeln!(stdout(), "{}", endpoint.describe(to).ok_or("gone")?)?;
    for number in 1..=10 {
        let start = Instant::now();
        endpoint.try_request(to, PING, &[number], b"hello")?;
        let answered = endpoint.wait_until(&mut last, SECONDS, |last| *last == number);
        writeln!(stdout(), "{number}: {:?}", answered.then(|| start.elapsed()).ok_or("no answer")?)?;
    }
    done.store(true, SeqCst);
    Ok(())
}

/// A node stays on the thread that opened it, so each has its own.
fn both(on: &str) -> Result<(), Box<dyn Error>> {
    if on.starts_with("udp:") || on.starts_with("tcp:") {
        return Err("two nodes cannot share one port: start two processes, `ping serve` and `ping beta`".into());
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| serve(on, &stop).unwrap_or_else(|error| _ = writeln!(stderr(), "beta: {error}")));
        let outcome = ping("beta", on, &stop);
        stop.store(true, SeqCst);
        outcome
    })
}

fn main() {
    // What a transport says when it is opened: its mode, and what was tried in vain.
    tracing_subscriber::fmt().with_writer(stderr).without_time().with_target(false).log_internal_errors(false).init();
    let arguments: Vec<String> = std::env::args_os().map(|text| text.to_string_lossy().into_owned()).collect();
    let is_help = |text: &String| matches!(text.as_str(), "--help" | "-h" | "help");
    if arguments.iter().skip(1).any(is_help) {
        return drop(writeln!(stdout(), "{USAGE}"));
    }
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[1..] {
        [] => both("sim:1"),
        [on] if on != "serve" && on != "beta" => both(on),
        ["serve", on] => serve(on, &AtomicBool::new(false)),
        [peer, on] => ping(peer, on, &AtomicBool::new(false)),
        _ => {
            _ = writeln!(stderr(), "{USAGE}");
            std::process::exit(2)
        }
    };
    outcome.map_err(|error| _ = writeln!(stderr(), "ping: {error}")).unwrap_or_else(|()| std::process::exit(1));
}
