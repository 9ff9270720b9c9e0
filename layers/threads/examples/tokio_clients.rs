//! Tokio: 1,000 connections on one thread, each used by a task of its own that awaits its calls. The server runs on another thread of
//! this process, over `sim:1` or the transport that is given: `tokio_clients shm:lab`.

use std::error::Error;
use std::future::poll_fn;
use std::io::{self, Write, stderr, stdout};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use am_api::{HandlerId, Node, NodeDescriptor, Request};
use am_threads::{CallError, Driver, Handlers, Reconnect, SharedEndpoint, share};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until};

const ADD: HandlerId = HandlerId(0);
const SECONDS: Duration = Duration::from_secs(60);
const CLIENTS: u64 = 1000;
const CALLS: u64 = 20;

/// The node "beta": a sequential endpoint on a thread of its own, with a sum for each connection.
fn serve(on: &str, stop: &AtomicBool) -> Result<(), Box<dyn Error>> {
    let node = Node::open("beta", on)?;
    let mut endpoint = node.endpoint("sums")?;
    endpoint.on_request(ADD, |sums: &mut std::collections::HashMap<_, _>, Request { message, token }| {
        let sum: &mut u64 = sums.entry(message.from()).or_default();
        *sum += message.word(1);
        token.answer(&[*sum], b"").unwrap_or_else(|error| _ = writeln!(stderr(), "beta: {error}"));
    });
    let mut sums = std::collections::HashMap::new();
    while !stop.load(SeqCst) {
        endpoint.wait(&mut sums, Duration::from_millis(50));
    }
    writeln!(stdout(), "beta has {} sums", sums.len())?;
    Ok(())
}

/// tokio watches any descriptor that has the type of one of its own. (`AsyncFd` would need an `unsafe` call.)
fn watch(descriptor: &NodeDescriptor) -> io::Result<UnixStream> {
    let stream = std::os::unix::net::UnixStream::from(descriptor.as_fd().try_clone_to_owned()?);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// If the descriptor was readable, forget it.
fn poll_readable(watched: &UnixStream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    watched.poll_read_ready(cx).map_ok(|()| {
        _ = watched.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
    })
}

/// The node's half: polled whenever its descriptor is readable.
async fn drive(mut driver: Driver) -> io::Result<()> {
    let watched = watch(&driver.descriptor()?)?;
    loop {
        let deadline = Instant::from_std(driver.next_deadline());
        let ready = poll_fn(|cx| driver.poll_ready(cx, |cx| poll_readable(&watched, cx)));
        tokio::select! {
            result = ready => result?,
            () = sleep_until(deadline) => {}
        }
        driver.poll();
        // The tasks that have their answers go first.
        tokio::task::yield_now().await;
    }
}

/// A task with a connection of its own. Returns the sum that the server has for it.
async fn client(endpoint: SharedEndpoint, number: u64) -> Result<u64, Box<dyn Error>> {
    let server = endpoint.connect("beta", "sums", Reconnect::Never)?;
    let mut sum = 0;
    for _ in 0..CALLS {
        sum = endpoint.call(server, ADD, &[number], b"", SECONDS).await?.word(0);
    }
    Ok(sum)
}

async fn run(on: &str) -> Result<(), Box<dyn Error>> {
    // Any number of these may run at a time.
    let node = Node::builder("alpha").unique_name().open(on)?;
    let (driver, endpoint) = share(&node, "main", Handlers::new())?;
    let driving = tokio::task::spawn_local(drive(driver));
    let clients: Vec<_> =
        (0..CLIENTS).map(|number| tokio::task::spawn_local(client(endpoint.clone(), number))).collect();
    let mut right = 0;
    for (number, client) in clients.into_iter().enumerate() {
        right += u64::from(client.await?? == number as u64 * CALLS);
    }
    writeln!(stdout(), "{right} of {CLIENTS} connections have the right sum")?;
    driving.abort();
    if right == CLIENTS { Ok(()) } else { Err(CallError::TimedOut.into()) }
}

fn ask(on: &str) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, run(on))
}

fn main() {
    let on = std::env::args().nth(1).unwrap_or("sim:1".to_owned());
    if on.starts_with('-') {
        return drop(writeln!(stdout(), "usage: tokio_clients [TRANSPORT], as in: tokio_clients shm:lab"));
    }
    let stop = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        scope.spawn(|| serve(&on, &stop).unwrap_or_else(|error| _ = writeln!(stderr(), "beta: {error}")));
        let asked = ask(&on);
        stop.store(true, SeqCst);
        asked
    });
    outcome
        .map_err(|error| _ = writeln!(stderr(), "tokio_clients: {error}"))
        .unwrap_or_else(|()| std::process::exit(1));
}
