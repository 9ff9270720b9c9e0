//! Bulk transfers: 8 MiB are put into memory of the peer, and got back. Both sides run in this process, over `sim:1` or the
//! transport that is given: `bulk shm:lab`.

use std::error::Error;
use std::io::{Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use am_api::{HandlerId, Node, RegionId, Request, Rights, TransferKind};

/// Asks which region there is.
const WHICH: HandlerId = HandlerId(0);
const BYTES: usize = 8 << 20;
const SECONDS: Duration = Duration::from_secs(60);

/// The node "beta": it owns the memory, and does nothing while peers write and read it.
fn serve(on: &str, stop: &AtomicBool) -> Result<(), Box<dyn Error>> {
    let node = Node::open("beta", on)?;
    let mut endpoint = node.endpoint("store")?;
    let region = endpoint.register(vec![0; BYTES], Rights::BOTH);
    let id = region.id();
    endpoint.on_request(WHICH, move |(), Request { token, .. }| {
        token.reply(WHICH, &[id.0.into()], b"").unwrap_or_else(|error| _ = writeln!(stderr(), "beta: {error}"));
    });
    endpoint.on_transfer(|(), over| {
        _ = writeln!(stdout(), "beta: {:?} of {} bytes: {:?}", over.kind, over.length, over.result)
    });
    while !stop.load(SeqCst) {
        endpoint.wait(&mut (), Duration::from_millis(50));
    }
    Ok(())
}

/// What the client knows.
#[derive(Default)]
struct State {
    region: Option<RegionId>,
    ended: Vec<TransferKind>,
}

fn transfer(on: &str) -> Result<(), Box<dyn Error>> {
    let node = Node::open("alpha", on)?;
    let mut endpoint = node.endpoint("main")?;
    endpoint.on_reply(WHICH, |state: &mut State, reply| state.region = Some(RegionId(reply.word(0) as u32)));
    endpoint.on_transfer(|state, over| match over.result {
        Ok(()) => state.ended.push(over.kind),
        Err(error) => _ = writeln!(stderr(), "alpha: {:?} failed: {error}", over.kind),
    });
    let (mut state, to) = (State::default(), endpoint.connect("beta", "store")?);
    endpoint.wait_open(&mut state, to, SECONDS)?;
    endpoint.request(&mut state, to, WHICH, &[], b"")?;
    endpoint.wait_until(&mut state, SECONDS, |state| state.region.is_some());
    let region = state.region.ok_or("beta does not say which region")?;

    let data: Vec<u8> = (0..BYTES).map(|at| (at / 7) as u8).collect();
    let start = Instant::now();
    endpoint.put(to, region, 0, data.clone())?;
    if !endpoint.wait_until(&mut state, SECONDS, |state| state.ended.contains(&TransferKind::Put)) {
        return Err("the put did not end".into());
    }
    // Nothing but this get can write here.
    let back = endpoint.register(vec![0; BYTES], Rights::NONE);
    endpoint.get(to, region, 0, BYTES as u64, &back, 0)?;
    if !endpoint.wait_until(&mut state, SECONDS, |state| state.ended.contains(&TransferKind::Get)) {
        return Err("the get did not end".into());
    }
    let same = back.bytes()[..] == data[..];
    writeln!(
        stdout(),
        "alpha: {BYTES} bytes there and back in {:?}, {}",
        start.elapsed(),
        if same { "the same" } else { "others" }
    )?;
    if same { Ok(()) } else { Err("other bytes came back".into()) }
}

fn main() {
    let on = std::env::args().nth(1).unwrap_or("sim:1".to_owned());
    if on.starts_with('-') {
        return drop(writeln!(stdout(), "usage: bulk [TRANSPORT], as in: bulk shm:lab"));
    }
    let stop = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        scope.spawn(|| serve(&on, &stop).unwrap_or_else(|error| _ = writeln!(stderr(), "beta: {error}")));
        let done = transfer(&on);
        stop.store(true, SeqCst);
        done
    });
    outcome.map_err(|error| _ = writeln!(stderr(), "bulk: {error}")).unwrap_or_else(|()| std::process::exit(1));
}
