//! A publisher, and subscribers of which one is slow: it gets the latest message, and keeps its connection.
//!
//!     publisher serve 3 2000 shm:lab   the node "ticks": waits for 3 subscribers, then publishes 2,000 messages
//!     publisher read shm:lab           gets all of them, in order
//!     publisher read-slowly shm:lab    needs 20 ms for each, and wants the latest only

use std::error::Error;
use std::io::{Write, stderr, stdout};
use std::thread::sleep;
use std::time::{Duration, Instant};

use am_api::{ConnectionChange, HandlerId, Node};
use am_base::{Publisher, Subscriptions, Wanted};

const TICKS: HandlerId = HandlerId(0);
const DEADLINE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(100);

fn serve(subscribers: usize, count: u64, on: &str) -> Result<(), Box<dyn Error>> {
    let node = Node::open("ticks", on)?;
    let mut endpoint = node.endpoint("main")?;
    // As many may wait for a subscriber as there are, so that one that is late for a moment misses none.
    let ticks = Publisher::new(&mut endpoint, TICKS, count as usize);
    writeln!(stdout(), "serving on {}", node.local_address())?;
    while ticks.subscribers(&endpoint).len() < subscribers {
        ticks.wait(&mut endpoint, &mut (), SHORT);
    }
    for number in 1..=count {
        // All have one key. With several, the last message may overtake older ones of other keys (`Wanted::Latest`).
        let is_last = u64::from(number == count);
        ticks.publish(&endpoint, 0, &[number, is_last], format!("tick {number}").into_bytes())?;
        ticks.wait(&mut endpoint, &mut (), Duration::ZERO);
    }
    let until = Instant::now() + DEADLINE;
    while !ticks.is_accepted(&endpoint) && Instant::now() < until {
        ticks.wait(&mut endpoint, &mut (), SHORT);
    }
    writeln!(stdout(), "{:?}", ticks.counters(&endpoint))?;
    Ok(())
}

#[derive(Default)]
struct Read {
    numbers: Vec<u64>,
    missed: u64,
    is_over: bool,
    has_ended: bool,
}

fn read(pause: Duration, window: usize, wanted: Wanted, on: &str) -> Result<(), Box<dyn Error>> {
    let mut endpoint = Node::builder("reader").unique_name().open(on)?.endpoint("main")?;
    let ticks = Subscriptions::new(&mut endpoint, TICKS, move |read: &mut Read, tick| {
        sleep(pause);
        read.numbers.push(tick.words()[0]);
        read.missed += tick.missed;
        read.is_over = tick.words()[1] == 1;
    });
    endpoint.on_connection(|read, event| read.has_ended |= matches!(event.change, ConnectionChange::Ended(_)));
    let (to, mut read) = (endpoint.connect("ticks", "main")?, Read::default());
    endpoint.wait_open(&mut read, to, DEADLINE)?;
    ticks.subscribe(&endpoint, to, window, wanted)?;
    endpoint.wait_until(&mut read, DEADLINE, |read| read.is_over || read.has_ended);
    let Read { numbers, missed, is_over, .. } = read;
    let order = if numbers.is_sorted() { "in order" } else { "OUT OF ORDER" };
    let (count, last) = (numbers.len(), numbers.last().copied().unwrap_or_default());
    writeln!(stdout(), "got {count} {order}, missed {missed}, the last one was {last}")?;
    if is_over { Ok(()) } else { Err("the connection ended first".into()) }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match *arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        ["serve", subscribers, count, on] => match (subscribers.parse(), count.parse()) {
            (Ok(subscribers), Ok(count)) => serve(subscribers, count, on),
            _ => Err("serve SUBSCRIBERS MESSAGES: two numbers".into()),
        },
        ["read", on] => read(Duration::ZERO, 64, Wanted::All, on),
        ["read-slowly", on] => read(Duration::from_millis(20), 1, Wanted::Latest, on),
        _ => Err("usage: publisher serve SUBSCRIBERS MESSAGES ON, publisher read ON, publisher read-slowly ON".into()),
    };
    done.map_err(|error| _ = writeln!(stderr(), "publisher: {error}")).unwrap_or_else(|()| std::process::exit(1));
}
