//! A server that ends cleanly on Ctrl-C (SIGINT) or SIGTERM: what it has received is answered, its answers are acknowledged,
//! and its peers learn at once that it left.
//!
//!     shutdown udp:10.0.0.7:7000

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use am_api::{HandlerId, Node, Request};
use signal_hook::consts::{SIGINT, SIGTERM};

const ECHO: HandlerId = HandlerId(0);

fn main() -> Result<(), Box<dyn Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let on = std::env::args().nth(1).ok_or("usage: shutdown TRANSPORT, as in: shutdown udp:10.0.0.7:7000")?;
    let node = Node::open("beta", &on)?;
    let mut endpoint = node.endpoint::<u64>("main")?;
    endpoint.on_request(ECHO, |handled, Request { message, token }| {
        *handled += 1;
        token.reply(ECHO, message.words(), message.payload()).unwrap_or_else(|error| eprintln!("{error}"));
    });
    println!("serving on {}; Ctrl-C ends it", node.local_address());
    let mut handled = 0;
    while !stop.load(SeqCst) {
        endpoint.wait(&mut handled, Duration::from_millis(100));
    }
    // What has arrived meanwhile.
    while endpoint.poll(&mut handled) > 0 {}
    // Closing says how many requests were handled. The node's drop waits until replies and Closes are acknowledged.
    drop((endpoint, node));
    println!("handled {handled}");
    Ok(())
}
