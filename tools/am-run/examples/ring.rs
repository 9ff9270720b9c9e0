//! A number goes around: each process adds one and sends it to the next.
//!
//! ```text
//! cargo build --release -p am-run --bins --examples
//! target/release/am-run -n 4 target/release/examples/ring
//! mpirun -n 4 target/release/examples/ring
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use am_api::{HandlerId, Request};
use am_spmd::Place;

const NUMBER: HandlerId = HandlerId(0);
const LONG: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let ended = run();
    ended.map_or_else(
        |error| {
            eprintln!("{error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut place = Place::find()?;
    let (rank, size) = (place.rank(), place.size());
    let node = place.open()?;
    let mut endpoint = node.endpoint::<Option<u64>>("ring")?;
    endpoint.on_request(NUMBER, |number, Request { message, .. }| *number = Some(message.word(0)));
    place.barrier()?; // every endpoint is there
    let mut number = (rank == 0).then_some(0);
    if size > 1 {
        let next = endpoint.connect(&place.node_name((rank + 1) % size), "ring")?;
        endpoint.wait_open(&mut number, next, LONG)?;
        if rank != 0 && !endpoint.wait_until(&mut number, LONG, Option::is_some) {
            return Err("no number arrived".into());
        }
        let sent = number.take().unwrap_or_default() + 1;
        endpoint.request(&mut number, next, NUMBER, &[sent], b"")?;
        if rank == 0 && !endpoint.wait_until(&mut number, LONG, Option::is_some) {
            return Err("the number did not come back".into());
        }
        while !endpoint.is_accepted(next) {
            endpoint.wait(&mut number, Duration::from_millis(1));
        }
        println!(
            "rank {rank} of {size} by {}: sent {sent}",
            endpoint.describe(next).map_or_else(String::new, |by| by.transport)
        );
    }
    if rank == 0 {
        let processes = number.unwrap_or_default().max(1);
        println!("{processes} {} on the ring", if processes == 1 { "process" } else { "processes" });
    }
    // Nobody leaves while another still sends.
    place.barrier_with(|| _ = endpoint.wait(&mut number, Duration::from_millis(1)))?;
    Ok(())
}
