//! One server and several clients: the server keeps what it knows of each client by its connection. All run in this process,
//! over `sim:1` or the transport that is given: `clients shm:lab`.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write, stderr, stdout};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use am_api::{Connection, ConnectionChange, HandlerId, Node, Request};

const ADD: HandlerId = HandlerId(0);
const CLIENTS: usize = 4;
const EACH: u64 = 1000;
const SECONDS: Duration = Duration::from_secs(30);

/// What the server knows: a sum for each client, and whether its output was written.
struct Server {
    sums: HashMap<Connection, u64>,
    written: io::Result<()>,
}

impl Server {
    fn say(&mut self, text: impl Display) {
        if self.written.is_ok() {
            self.written = writeln!(stdout(), "server: {text}");
        }
    }
}

/// The node "server".
fn serve(on: &str, left: &AtomicUsize) -> Result<(), Box<dyn Error>> {
    let node = Node::open("server", on)?;
    let mut endpoint = node.endpoint::<Server>("sums")?;
    endpoint.on_request(ADD, |server, Request { message, token }| {
        let sum = server.sums.entry(message.from()).or_default();
        *sum += message.word(0);
        token.reply(ADD, &[*sum], b"").unwrap_or_else(|error| _ = writeln!(stderr(), "server: {error}"));
    });
    endpoint.on_connection(|server, event| match event.change {
        ConnectionChange::Accepted => server.say(format_args!("{} is here", event.peer)),
        ConnectionChange::Ended(reason) => {
            let sum = server.sums.remove(&event.connection).unwrap_or_default();
            server.say(format_args!("{} has left with {sum}: {reason}", event.peer));
        }
        // Of connections that this side asked for.
        ConnectionChange::Opened | ConnectionChange::Failed(_) => {}
    });
    let mut server = Server { sums: HashMap::new(), written: Ok(()) };
    while left.load(SeqCst) < CLIENTS || !server.sums.is_empty() {
        endpoint.wait(&mut server, Duration::from_millis(50));
    }
    Ok(server.written?)
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

fn tell(error: Box<dyn Error>) {
    _ = writeln!(stderr(), "clients: {error}");
}

fn main() {
    let on = std::env::args().nth(1).unwrap_or("sim:1".to_owned());
    if on.starts_with('-') {
        return drop(writeln!(stdout(), "usage: clients [TRANSPORT], as in: clients shm:lab"));
    }
    let left = AtomicUsize::new(0);
    let failed = thread::scope(|scope| {
        let server = scope.spawn(|| serve(&on, &left).map_err(tell).is_err());
        let run = |at: usize| {
            let done = client(&format!("client{at}"), &on).map_err(tell);
            left.fetch_add(1, SeqCst);
            done.is_err()
        };
        let clients: Vec<_> = (1..=CLIENTS).map(|at| scope.spawn(move || run(at))).collect();
        clients.into_iter().chain([server]).filter_map(|side| side.join().ok()).filter(|failed| *failed).count()
    });
    if failed > 0 {
        _ = writeln!(stderr(), "clients: {failed} of {CLIENTS} clients and a server failed");
        std::process::exit(1);
    }
}
