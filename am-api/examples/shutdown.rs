//! Two programs that end cleanly. A server ends on Ctrl-C (SIGINT) or SIGTERM: what it has received is answered, its answers arrive, and
//! its peers learn at once that it left. A client that only sends ends when all of it has arrived.
//!
//!     shutdown udp:10.0.0.7:7000                             the server, the node "beta"
//!     shutdown send udp:10.0.0.8:7000,peer=10.0.0.7:7000     the client sends three messages of 1 MiB

use std::collections::HashSet;
use std::error::Error;
use std::io::{Write, stderr, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use am_api::{Connection, ConnectionChange, HandlerId, Node, Request};
use signal_hook::consts::{SIGINT, SIGTERM};

const ECHO: HandlerId = HandlerId(0);
const NOTE: HandlerId = HandlerId(1);
const SECONDS: Duration = Duration::from_secs(10);
const USAGE: &str = "usage: shutdown TRANSPORT, as in: shutdown udp:10.0.0.7:7000, or: shutdown send TRANSPORT";

#[derive(Default)]
struct Served {
    handled: u64,
    clients: HashSet<Connection>,
}

fn serve(on: &str) -> Result<(), Box<dyn Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let node = Node::open("beta", on)?;
    let mut endpoint = node.endpoint::<Served>("main")?;
    endpoint.on_request(ECHO, |served, Request { message, token }| {
        served.handled += 1;
        token.reply(ECHO, message.words(), message.payload()).unwrap_or_else(|error| _ = writeln!(stderr(), "{error}"));
    });
    // A caller that wants no reply gets none.
    endpoint.on_request(NOTE, |served, _| served.handled += 1);
    endpoint.on_connection(|served, event| {
        _ = match event.change {
            ConnectionChange::Ended(_) => served.clients.remove(&event.connection),
            _ => served.clients.insert(event.connection),
        }
    });
    writeln!(stdout(), "serving on {}; Ctrl-C ends it", node.local_address())?;
    let mut served = Served::default();
    while !stop.load(SeqCst) {
        endpoint.wait(&mut served, Duration::from_millis(100));
    }
    // What has arrived meanwhile.
    while endpoint.poll(&mut served) > 0 {}
    // An answer that is longer than a frame leaves with polls, so it is waited for here.
    for to in served.clients.clone() {
        endpoint.wait_accepted(&mut served, to, Duration::from_secs(1));
    }
    // Closing says how many requests were handled. The node's drop waits until answers of one frame and Closes are acknowledged.
    drop((endpoint, node));
    Ok(writeln!(stdout(), "handled {}", served.handled)?)
}

fn send(on: &str) -> Result<(), Box<dyn Error>> {
    let node = Node::builder("alpha").unique_name().open(on)?;
    let mut endpoint = node.endpoint("main")?;
    endpoint.on_returned(|back, returned| *back = Some(returned.reason));
    let (mut back, to) = (None, endpoint.connect("beta", "main")?);
    endpoint.wait_open(&mut back, to, SECONDS)?;
    for number in 0..3 {
        endpoint.request(&mut back, to, NOTE, &[number], &[7; 1 << 20])?;
    }
    // The last call has returned, and its message has not left yet: if the endpoint were dropped now, it would be lost.
    if !endpoint.wait_accepted(&mut back, to, SECONDS) {
        return Err("beta did not accept all".into());
    }
    match back {
        Some(reason) => Err(format!("not all was sent: {reason}").into()),
        None => Ok(writeln!(stdout(), "sent 3")?),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match *arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        [on] if on.starts_with('-') => return drop(writeln!(stdout(), "{USAGE}")),
        [on] => serve(on),
        ["send", on] => send(on),
        _ => {
            _ = writeln!(stderr(), "{USAGE}");
            std::process::exit(2)
        }
    };
    done.map_err(|error| _ = writeln!(stderr(), "shutdown: {error}")).unwrap_or_else(|()| std::process::exit(1));
}
