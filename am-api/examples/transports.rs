//! Several transports at once: "beta" is reached by shared memory from this machine and by UDP from elsewhere. Here all nodes
//! are in one process and on one thread, and "gamma" has UDP alone.

use std::error::Error;
use std::io::{Write, stderr, stdout};
use std::time::{Duration, Instant};

use am_api::{Endpoint, HandlerId, Node, NotOpen, Request};

const HELLO: HandlerId = HandlerId(0);
const UDP: &str = "udp:127.0.0.1:0";
const SECONDS: Duration = Duration::from_secs(30);

fn run() -> Result<(), Box<dyn Error>> {
    let both = format!("shm:am-example-{}+{UDP}", std::process::id());
    let nodes = [Node::open("alpha", &both)?, Node::open("beta", &both)?, Node::open("gamma", UDP)?];
    // Alpha finds beta by shared memory. UDP has no broadcast: one of two nodes needs the other's address.
    let beta = nodes[1].local_address();
    let udp = beta.split('+').find(|address| address.starts_with("udp:")).ok_or("beta has no UDP")?;
    nodes[2].add_peer_address(udp)?;
    let mut endpoints: Vec<Endpoint<u64>> = nodes.iter().map(|node| node.endpoint("main")).collect::<Result<_, _>>()?;
    endpoints[1].on_request(HELLO, |hellos, Request { message, token }| {
        *hellos += 1;
        token.reply(HELLO, message.words(), b"").unwrap_or_else(|error| _ = writeln!(stderr(), "beta: {error}"));
    });
    for asks in [0, 2] {
        endpoints[asks].on_reply(HELLO, |answers, _| *answers += 1);
    }

    let (start, mut states) = (Instant::now(), [0; 3]);
    let mut to = [0, 2].map(|asks| (asks, endpoints[asks].connect("beta", "main"), false));
    while states != [1, 2, 1] {
        if start.elapsed() > SECONDS {
            return Err(format!("answers to alpha, at beta, to gamma: {states:?}").into());
        }
        endpoints.iter_mut().zip(&mut states).for_each(|(endpoint, state)| _ = endpoint.poll(state));
        for (asks, to, asked) in &mut to {
            let (endpoint, connection) = (&endpoints[*asks], to.clone()?);
            if let (false, Some(how)) = (*asked, endpoint.describe(connection)) {
                writeln!(stdout(), "{} asks {how}", nodes[*asks].name())?;
                *asked = endpoint.try_request(connection, HELLO, &[], b"").is_ok();
            }
            if endpoint.ready(connection).is_err_and(|why| why != NotOpen::Connecting) {
                // Beta's address was not known yet.
                endpoint.close(connection);
                *to = endpoint.connect("beta", "main");
            }
        }
    }
    Ok(())
}

fn main() {
    if std::env::args_os().len() > 1 {
        return drop(writeln!(stdout(), "usage: transports"));
    }
    run().map_err(|error| _ = writeln!(stderr(), "transports: {error}")).unwrap_or_else(|()| std::process::exit(1));
}
