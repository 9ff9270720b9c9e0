//! A server that ends cleanly on Ctrl-C (SIGINT) or SIGTERM: what it has received is answered, its answers are acknowledged,
//! and its peers learn at once that it left.
//!
//!     shutdown udp:10.0.0.7:7000

use std::error::Error;
use std::io::{Write, stderr, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use am_api::{HandlerId, Node, Request};
use signal_hook::consts::{SIGINT, SIGTERM};

const ECHO: HandlerId = HandlerId(0);
const USAGE: &str = "usage: shutdown TRANSPORT, as in: shutdown udp:10.0.0.7:7000";

fn run(on: &str) -> Result<(), Box<dyn Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let node = Node::open("beta", on)?;
    let mut endpoint = node.endpoint::<u64>("main")?;
    endpoint.on_request(ECHO, |handled, Request { message, token }| {
        *handled += 1;
        token.reply(ECHO, message.words(), message.payload()).unwrap_or_else(|error| _ = writeln!(stderr(), "{error}"));
    });
    writeln!(stdout(), "serving on {}; Ctrl-C ends it", node.local_address())?;
    let mut handled = 0;
    while !stop.load(SeqCst) {
        endpoint.wait(&mut handled, Duration::from_millis(100));
    }
    // What has arrived meanwhile.
    while endpoint.poll(&mut handled) > 0 {}
    // Closing says how many requests were handled. The node's drop waits until replies and Closes are acknowledged.
    drop((endpoint, node));
    Ok(writeln!(stdout(), "handled {handled}")?)
}

fn main() {
    let Some(on) = std::env::args().nth(1) else {
        _ = writeln!(stderr(), "{USAGE}");
        std::process::exit(2)
    };
    if on.starts_with('-') {
        return drop(writeln!(stdout(), "{USAGE}"));
    }
    run(&on).map_err(|error| _ = writeln!(stderr(), "shutdown: {error}")).unwrap_or_else(|()| std::process::exit(1));
}
