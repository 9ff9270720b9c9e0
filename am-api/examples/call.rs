//! A request with a deadline, and a connection that is opened again: the server is restarted twice, and every number is
//! squared. Both sides run in this process, over `sim:1` or the transport that is given: `call shm:lab`.

use std::error::Error;
use std::io::{Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use am_api::{Connection, Endpoint, HandlerId, Node, NotOpen, Request};

const SQUARE: HandlerId = HandlerId(0);
const DEADLINE: Duration = Duration::from_millis(500);
const ATTEMPTS: u32 = 20;

/// The outcome of the last call, if it has one.
type State = Option<Result<u64, String>>;

/// The node "beta", which closes and reopens after every third answer.
fn serve(transport: &str, stop: &AtomicBool) -> Result<(), Box<dyn Error>> {
    while !stop.load(SeqCst) {
        let node = Node::open("beta", transport)?;
        let mut endpoint = node.endpoint::<u64>("squares")?;
        endpoint.on_request(SQUARE, |answers, Request { message, token }| {
            // The first word is the call's id, which the answer repeats.
            let number = message.word(1);
            *answers += u64::from(token.answer(&[number * number], b"").is_ok());
        });
        let mut answers = 0;
        while answers < 3 && !stop.load(SeqCst) {
            endpoint.wait(&mut answers, Duration::from_millis(50));
        }
    }
    Ok(())
}

/// Call until there is an answer. The handler may run twice for one number: squaring it again does no harm.
fn square(endpoint: &mut Endpoint<State>, to: &mut Connection, number: u64) -> Result<u64, Box<dyn Error>> {
    for _ in 0..ATTEMPTS {
        let mut state = None;
        match endpoint.wait_open(&mut state, *to, DEADLINE).map_err(|error| error.why) {
            Ok(()) => {}
            Err(NotOpen::Connecting) => continue,
            Err(why) => {
                writeln!(stdout(), "connecting again: {why}")?;
                endpoint.close(*to);
                *to = endpoint.connect("beta", "squares")?;
                continue;
            }
        }
        if endpoint.try_call(*to, SQUARE, &[number], b"", DEADLINE).is_ok() {
            endpoint.wait_until(&mut state, 2 * DEADLINE, Option::is_some);
        }
        match state {
            Some(Ok(square)) => return Ok(square),
            Some(Err(why)) => writeln!(stdout(), "calling again: {why}")?,
            None => {}
        }
    }
    Err(format!("no answer to {number}").into())
}

fn ask(transport: &str) -> Result<(), Box<dyn Error>> {
    // Any number of these may run at a time.
    let node = Node::builder("alpha").unique_name().open(transport)?;
    let mut endpoint = node.endpoint("asks")?;
    // Every outcome arrives here: answer, return, end of the connection, or deadline.
    endpoint.on_outcome(SQUARE, |state: &mut State, outcome| {
        *state = Some(outcome.result.map(|answer| answer.word(1)).map_err(|error| error.to_string()));
    });
    let mut to = endpoint.connect("beta", "squares")?;
    for number in 1..=9 {
        writeln!(stdout(), "{number} squared is {}", square(&mut endpoint, &mut to, number)?)?;
    }
    Ok(())
}

fn main() {
    let transport = std::env::args().nth(1).unwrap_or("sim:1".to_owned());
    if transport.starts_with('-') {
        return drop(writeln!(stdout(), "usage: call [TRANSPORT], as in: call shm:lab"));
    }
    let stop = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        scope.spawn(|| serve(&transport, &stop).unwrap_or_else(|error| _ = writeln!(stderr(), "beta: {error}")));
        let result = ask(&transport);
        stop.store(true, SeqCst);
        result
    });
    outcome.map_err(|error| _ = writeln!(stderr(), "call: {error}")).unwrap_or_else(|()| std::process::exit(1));
}
