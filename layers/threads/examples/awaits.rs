//! A handler that awaits: it runs on the node's thread, and hands each request to a tokio task, which answers when it has what it awaits. So
//! slow requests delay no other, and no thread waits for one. Both nodes run in this process, over `sim:1` or the transport that is given:
//! `awaits shm:lab`.

use std::error::Error;
use std::io::{Write, stderr, stdout};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use am_api::{HandlerId, Node};
use am_threads::{Handlers, Reconnect, SharedEndpoint, SharedRequest, share};
use tokio::runtime::{Builder, Handle};
use tokio::time::sleep;

const LOOK_UP: HandlerId = HandlerId(0);
const SECONDS: Duration = Duration::from_secs(60);
const CALLS: u64 = 200;

/// A node whose driver has a thread of its own. The thread ends when all handles are dropped.
fn start(name: &'static str, on: &str, handlers: Handlers) -> Result<SharedEndpoint, Box<dyn Error>> {
    let (gives, started) = channel();
    let on = on.to_owned();
    thread::spawn(move || {
        let open = || -> Result<_, Box<dyn Error>> {
            let node = Node::open(name, &on)?;
            let (driver, endpoint) = share(&node, "main", handlers)?;
            Ok((node, driver, endpoint))
        };
        match open() {
            Ok((_node, mut driver, endpoint)) => {
                _ = gives.send(Ok(endpoint));
                driver.run();
            }
            Err(error) => _ = gives.send(Err(error.to_string())),
        }
    });
    Ok(started.recv()??)
}

/// What a database would take its time for.
async fn look_up(key: u64) -> String {
    sleep(Duration::from_millis(50)).await;
    format!("the value of {key}")
}

/// The message stays in its frame until the task drops it, and the token answers from any thread.
async fn answer(request: SharedRequest) {
    let value = look_up(request.message.word(1)).await;
    request.token.answer(&[], value.as_bytes()).unwrap_or_else(|error| _ = writeln!(stderr(), "beta: {error}"));
}

async fn run(on: &str) -> Result<(), Box<dyn Error>> {
    let tasks = Handle::current();
    let handlers = Handlers::new().on_driver().on_request(LOOK_UP, move |request| _ = tasks.spawn(answer(request)));
    let _server = start("beta", on, handlers)?;
    let client = start("alpha", on, Handlers::new())?;
    let beta = client.connect("beta", "main", Reconnect::After(SECONDS / 1000))?;

    let start = Instant::now();
    let calls: Vec<_> = (0..CALLS).map(|key| client.call(beta, LOOK_UP, &[key], b"", SECONDS)).collect();
    for (key, call) in calls.into_iter().enumerate() {
        let answer = call.await?;
        if *answer != *format!("the value of {key}").as_bytes() {
            return Err(format!("{answer:?} is no answer for {key}").into());
        }
    }
    writeln!(stdout(), "{CALLS} answers after {} ms, of which each took 50", start.elapsed().as_millis())?;
    Ok(())
}

fn main() {
    let on = std::env::args().nth(1).unwrap_or("sim:1".to_owned());
    if on.starts_with('-') {
        return drop(writeln!(stdout(), "usage: awaits [TRANSPORT], as in: awaits shm:lab"));
    }
    let runtime = Builder::new_current_thread().enable_all().build();
    let outcome = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(run(&on)));
    outcome.map_err(|error| _ = writeln!(stderr(), "awaits: {error}")).unwrap_or_else(|()| std::process::exit(1));
}
