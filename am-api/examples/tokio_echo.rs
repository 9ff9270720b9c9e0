//! Tokio: a server and a client, each a task that waits on its node's descriptor, beside a task of another kind. All run on one thread,
//! over `sim:1` or the transport that is given: `tokio_echo shm:lab`.

use std::cell::Cell;
use std::error::Error;
use std::future::poll_fn;
use std::io::{self, Write, stderr, stdout};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use am_api::{Endpoint, Events, HandlerId, Node, NodeDescriptor, Request};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

const ECHO: HandlerId = HandlerId(0);
const ECHOES: u64 = 1000;
const SECONDS: Duration = Duration::from_secs(30);

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

/// An endpoint of a task.
struct Task<S> {
    endpoint: Endpoint<S>,
    watched: UnixStream,
}

impl<S> Task<S> {
    fn new(endpoint: Endpoint<S>) -> io::Result<Task<S>> {
        let watched = watch(&endpoint.descriptor()?)?;
        Ok(Task { endpoint, watched })
    }

    /// Wait for an event of the endpoint's mask; other tasks run meanwhile.
    async fn ready(&mut self) -> io::Result<Events> {
        let Task { endpoint, watched } = self;
        poll_fn(|cx| endpoint.poll_ready(cx, |cx| poll_readable(watched, cx))).await
    }
}

async fn serve(on: String) -> Result<(), Box<dyn Error>> {
    let node = Node::open("beta", &on)?;
    let mut endpoint = node.endpoint("echo")?;
    endpoint.on_request(ECHO, |(), Request { message, token }| {
        token
            .reply(ECHO, message.words(), message.payload())
            .unwrap_or_else(|error| _ = writeln!(stderr(), "beta: {error}"));
    });
    let mut task = Task::new(endpoint)?;
    loop {
        task.ready().await?;
        task.endpoint.poll(&mut ());
    }
}

async fn ask(on: &str) -> Result<u64, Box<dyn Error>> {
    // Any number of these may run at a time.
    let node = Node::builder("alpha").unique_name().open(on)?;
    let mut endpoint = node.endpoint("asks")?;
    endpoint.on_reply(ECHO, |last, reply| *last = reply.word(0));
    let mut task = Task::new(endpoint)?;
    let (mut last, mut to) = (0, task.endpoint.connect("beta", "echo")?);
    while !task.endpoint.is_open(to) {
        task.ready().await?;
        task.endpoint.poll(&mut last);
        if task.endpoint.ready(to).is_err_and(|why| why != am_api::NotOpen::Connecting) {
            task.endpoint.close(to);
            to = task.endpoint.connect("beta", "echo")?;
        }
    }
    for number in 1..=ECHOES {
        task.endpoint.try_request(to, ECHO, &[number], b"hello")?;
        while last < number {
            task.ready().await?;
            task.endpoint.poll(&mut last);
        }
    }
    Ok(last)
}

async fn run(on: &str) -> Result<(), Box<dyn Error>> {
    let ticks = Rc::new(Cell::new(0));
    let count = ticks.clone();
    spawn_local(async move {
        loop {
            count.set(count.get() + 1);
            sleep(Duration::from_millis(1)).await;
        }
    });
    let server = on.to_owned();
    let serving = spawn_local(async move { serve(server).await.map_err(|error| error.to_string()) });
    let asked = tokio::select! {
        served = serving => Err(served?.err().unwrap_or_default().into()),
        asked = timeout(SECONDS, ask(on)) => asked?,
    };
    writeln!(stdout(), "{} echoes, and {} ticks of a timer beside them", asked?, ticks.get())?;
    Ok(())
}

fn main() {
    let on = std::env::args().nth(1).unwrap_or("sim:1".to_owned());
    if on.starts_with('-') {
        return drop(writeln!(stdout(), "usage: tokio_echo [TRANSPORT], as in: tokio_echo shm:lab"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime.map_err(Into::into).and_then(|runtime| LocalSet::new().block_on(&runtime, run(&on)));
    outcome.map_err(|error| _ = writeln!(stderr(), "tokio_echo: {error}")).unwrap_or_else(|()| std::process::exit(1));
}
