//! Four threads on one shared endpoint: they take requests as they come, and a client's threads call them. All run in this process, over
//! `sim:1` or the transport that is given: `pool shm:lab`.

use std::error::Error;
use std::io::{Write, stderr, stdout};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use am_api::{HandlerId, Node};
use am_threads::{CallError, Handlers, Peer, Reconnect, SharedEndpoint, SharedRequest, share};

const IS_PRIME: HandlerId = HandlerId(0);
const SECONDS: Duration = Duration::from_secs(30);
const THREADS: u64 = 4;
const EACH: u64 = 250;

/// A node on a thread of its own, and the endpoint that others share.
fn start(name: &'static str, on: &str, handlers: Handlers) -> Result<(SharedEndpoint, JoinHandle<()>), Box<dyn Error>> {
    let (gives, started) = channel();
    let on = on.to_owned();
    let thread = thread::spawn(move || {
        let open = || -> Result<_, Box<dyn Error>> {
            let node = Node::open(name, &on)?;
            let (driver, endpoint) = share(&node, "main", handlers)?;
            Ok((node, driver, endpoint))
        };
        match open() {
            Ok((_node, mut driver, endpoint)) => {
                _ = gives.send(Ok(endpoint));
                // Until all handles are dropped.
                driver.run();
            }
            Err(error) => _ = gives.send(Err(error.to_string())),
        }
    });
    Ok((started.recv()??, thread))
}

/// Runs on whichever thread is free. A call's first word is its id.
fn is_prime(request: SharedRequest) {
    let number = request.message.word(1);
    let is_prime = number > 1
        && (2..number).take_while(|factor| factor * factor <= number).all(|factor| !number.is_multiple_of(factor));
    match request.token.answer(&[u64::from(is_prime)], b"") {
        Ok(()) => {}
        Err(error) => _ = writeln!(stderr(), "beta: {error}"),
    }
}

/// The primes among this thread's numbers. Its calls wait at the server all at once.
fn count(client: &SharedEndpoint, beta: Peer, first: u64) -> Result<u64, CallError> {
    let calls: Vec<_> =
        (first..first + EACH).map(|number| client.call(beta, IS_PRIME, &[number], b"", SECONDS)).collect();
    calls.into_iter().map(|call| call.wait().map(|answer| answer.word(0))).sum()
}

fn run(on: &str) -> Result<(), Box<dyn Error>> {
    let (server, beta_node) = start("beta", on, Handlers::new().on_request(IS_PRIME, is_prime))?;
    let (client, alpha_node) = start("alpha", on, Handlers::new())?;
    let beta = client.connect("beta", "main", Reconnect::After(SECONDS / 1000))?;
    let asked = AtomicU64::new(0);
    let (handled, primes) = thread::scope(|scope| {
        let serving = [(); THREADS as usize].map(|()| {
            scope.spawn(|| {
                let mut handled = 0;
                while asked.load(SeqCst) < THREADS {
                    handled += server.wait(SECONDS / 1000);
                }
                handled
            })
        });
        let client = &client;
        let asking = [0, 1, 2, 3].map(|thread| scope.spawn(move || count(client, beta, thread * EACH)));
        let primes: Result<u64, CallError> = asking
            .into_iter()
            .map(|asking| {
                let primes = asking.join().unwrap_or(Err(CallError::NodeDropped));
                asked.fetch_add(1, SeqCst);
                primes
            })
            .sum();
        (serving.map(|serving| serving.join().unwrap_or_default()), primes)
    });
    writeln!(stdout(), "{} primes below {}", primes?, THREADS * EACH)?;
    writeln!(stdout(), "the server's threads handled {handled:?} requests, {} in all", handled.iter().sum::<usize>())?;
    drop((client, server));
    [alpha_node, beta_node].into_iter().try_for_each(JoinHandle::join).map_err(|_| "a node's thread has failed".into())
}

fn main() {
    let on = std::env::args().nth(1).unwrap_or("sim:1".to_owned());
    if on.starts_with('-') {
        return drop(writeln!(stdout(), "usage: pool [TRANSPORT], as in: pool shm:lab"));
    }
    run(&on).map_err(|error| _ = writeln!(stderr(), "pool: {error}")).unwrap_or_else(|()| std::process::exit(1));
}
