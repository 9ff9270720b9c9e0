//! A program with a loop of its own, as games and simulations have: it polls once in each round and never waits for messages.
//! Both sides run in this process, over `sim:1` or the transport that is given: `own_loop shm:lab`.

use std::error::Error;
use std::io::{Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use am_api::{HandlerId, Node, ReplyError, Request};

const MOVE: HandlerId = HandlerId(0);
const ROUNDS: u64 = 200;
const ROUND: Duration = Duration::from_millis(2);
const SECONDS: Duration = Duration::from_secs(30);

/// The world of the loop; handlers change it.
#[derive(Default)]
struct World {
    round: u64,
    /// The last round that the other side has seen.
    seen: u64,
}

/// The node "beta", which has nothing else to do.
fn serve(on: &str, stop: &AtomicBool) -> Result<(), Box<dyn Error>> {
    let node = Node::open("beta", on)?;
    let mut endpoint = node.endpoint("world")?;
    endpoint.on_request(MOVE, |(), Request { message, token }| {
        match token.reply(MOVE, message.words(), b"") {
            // Alpha has left: it had the answer that it waited for.
            Ok(()) | Err(ReplyError::Dead(_)) => {}
            Err(error) => _ = writeln!(stderr(), "beta: {error}"),
        }
    });
    while !stop.load(SeqCst) {
        endpoint.wait(&mut (), Duration::from_millis(50));
    }
    Ok(())
}

fn play(on: &str) -> Result<(), Box<dyn Error>> {
    let node = Node::open("alpha", on)?;
    let mut endpoint = node.endpoint("world")?;
    endpoint.on_reply(MOVE, |world: &mut World, reply| world.seen = reply.word(0));
    let to = endpoint.connect("beta", "world")?;
    let (start, mut world) = (Instant::now(), World::default());
    while world.seen < ROUNDS && start.elapsed() < SECONDS {
        // The program's own work.
        let next = Instant::now() + ROUND;
        world.round = ROUNDS.min(world.round + u64::from(endpoint.is_open(to)));
        // Without room now, the next round says it.
        match endpoint.try_request(to, MOVE, &[world.round], b"") {
            Err(error) if !error.is_temporary() => return Err(error.into()),
            _ => {}
        }
        // Receives, runs handlers, sends. It returns at once.
        endpoint.poll(&mut world);
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    writeln!(stdout(), "beta has seen round {} of {}", world.seen, world.round)?;
    if world.seen == ROUNDS { Ok(()) } else { Err("beta is behind".into()) }
}

fn main() {
    let on = std::env::args().nth(1).unwrap_or("sim:1".to_owned());
    if on.starts_with('-') {
        return drop(writeln!(stdout(), "usage: own_loop [TRANSPORT], as in: own_loop shm:lab"));
    }
    let stop = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        scope.spawn(|| serve(&on, &stop).unwrap_or_else(|error| _ = writeln!(stderr(), "beta: {error}")));
        let played = play(&on);
        stop.store(true, SeqCst);
        played
    });
    outcome.map_err(|error| _ = writeln!(stderr(), "own_loop: {error}")).unwrap_or_else(|()| std::process::exit(1));
}
