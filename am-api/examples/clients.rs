//! One server and several clients: the server keeps what it knows of each client by its connection. All run in this process,
//! over `sim:1` or the transport that is given: `clients shm:lab`.

use std::collections::HashMap;
use std::error::Error;
use std::io::{Write, stderr, stdout};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use am_api::{Connection, ConnectionChange, HandlerId, Node, Request};

const ADD: HandlerId = HandlerId(0);
const CLIENTS: usize = 4;
const EACH: u64 = 1000;
const SECONDS: Duration = Duration::from_secs(30);

/// The node "server": a sum for each client.
fn serve(on: &str, left: &AtomicUsize) -> Result<(), Box<dyn Error>> {
    let node = Node::open("server", on)?;
    let mut endpoint = node.endpoint::<HashMap<Connection, u64>>("sums")?;
    endpoint.on_request(ADD, |sums, Request { message, token }| {
        let sum = sums.entry(message.from()).or_default();
        *sum += message.word(0);
        token.reply(ADD, &[*sum], b"").unwrap_or_else(|error| _ = writeln!(stderr(), "server: {error}"));
    });
    endpoint.on_connection(|sums, event| match event.change {
        ConnectionChange::Accepted => _ = writeln!(stdout(), "server: {} is here", event.peer),
        ConnectionChange::Ended(reason) => {
            let sum = sums.remove(&event.connection).unwrap_or_default();
            _ = writeln!(stdout(), "server: {} has left with {sum}: {reason}", event.peer);
        }
        // Of connections that this side asked for.
        ConnectionChange::Opened | ConnectionChange::Failed(_) => {}
    });
    let mut sums = HashMap::new();
    while left.load(SeqCst) < CLIENTS || !sums.is_empty() {
        endpoint.wait(&mut sums, Duration::from_millis(50));
    }
    Ok(())
}

fn client(name: &str, on: &str) -> Result<(), Box<dyn Error>> {
    let node = Node::open(name, on)?;
    let mut endpoint = node.endpoint("main")?;
    // The number of answers, and the last.
    endpoint.on_reply(ADD, |(answers, sum): &mut (u64, u64), reply| (*answers, *sum) = (*answers + 1, reply.word(0)));
    let (mut state, to) = ((0, 0), endpoint.connect("server", "sums")?);
    endpoint.wait_open(&mut state, to, SECONDS)?;
    for number in 1..=EACH {
        endpoint.request(&mut state, to, ADD, &[number], b"")?;
    }
    endpoint.wait_until(&mut state, SECONDS, |(answers, _)| *answers == EACH);
    if state == (EACH, EACH * (EACH + 1) / 2) { Ok(()) } else { Err(format!("{name} got {state:?}").into()) }
}

fn main() {
    let on = std::env::args().nth(1).unwrap_or("sim:1".to_owned());
    if on.starts_with('-') {
        return drop(writeln!(stdout(), "usage: clients [TRANSPORT], as in: clients shm:lab"));
    }
    let left = AtomicUsize::new(0);
    let failed = thread::scope(|scope| {
        scope.spawn(|| serve(&on, &left).unwrap_or_else(|error| _ = writeln!(stderr(), "server: {error}")));
        let run = |at: usize| {
            let done = client(&format!("client{at}"), &on).map_err(|error| _ = writeln!(stderr(), "{error}"));
            left.fetch_add(1, SeqCst);
            done.is_err()
        };
        let clients: Vec<_> = (1..=CLIENTS).map(|at| scope.spawn(move || run(at))).collect();
        clients.into_iter().filter_map(|client| client.join().ok()).filter(|failed| *failed).count()
    });
    if failed > 0 {
        _ = writeln!(stderr(), "clients: {failed} of {CLIENTS} failed");
        std::process::exit(1);
    }
}
