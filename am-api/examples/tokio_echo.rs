//! Tokio: a server and a client, each a task that waits on its node's descriptor, beside a task of another kind. All run on one thread,
//! over `sim:1` or the transport that is given: `tokio_echo shm:lab`.

use std::cell::Cell;
use std::error::Error;
use std::future::poll_fn;
use std::io::{self, Write, stderr, stdout};
use std::rc::Rc;
use std::time::Duration;

use am_api::{Endpoint, Events, HandlerId, Node, NodeDescriptor, Request};
use tokio::io::unix::AsyncFd;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

const ECHO: HandlerId = HandlerId(0);
const ECHOES: u64 = 1000;
const SECONDS: Duration = Duration::from_secs(30);

/// An endpoint of a task.
struct Task<S> {
    endpoint: Endpoint<S>,
    fd: AsyncFd<NodeDescriptor>,
}

impl<S> Task<S> {
    #[allow(
        deprecated,
        reason = "the other constructor is unsafe, and a node's descriptor keeps its number while it is held"
    )]
    fn new(endpoint: Endpoint<S>) -> io::Result<Task<S>> {
        let fd = AsyncFd::new(endpoint.descriptor()?)?;
        Ok(Task { endpoint, fd })
    }

    /// Wait for an event of the endpoint's mask; other tasks run meanwhile.
    async fn ready(&mut self) -> io::Result<Events> {
        let Task { endpoint, fd } = self;
        poll_fn(|cx| endpoint.poll_ready(cx, |cx| fd.poll_read_ready(cx).map_ok(|mut guard| guard.clear_ready()))).await
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
