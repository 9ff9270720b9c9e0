//! Compares the cost of a frame through shared memory with that of a cache line, on the same two cores.
//!
//! ```text
//!   cargo run --release -p am-shm --example roundtrip -- [CORE CORE]
//! ```
//!
//! Two threads, each a member; half a second for each figure. The figure is the first decile of many short runs,
//! because other programs may use the machine too.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

use am_shm::{Shm, ShmOptions};
use am_transport::{Transport, TransportExt};
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, Buffer, EtherType, Flow, Framing, Header, Kind};

const LONG: Duration = Duration::from_millis(500);
const FLOW: Flow = match Flow::new(7) {
    Some(flow) => flow,
    None => Flow::NODE,
};

fn pin(core: usize) {
    core_affinity::set_for_current(core_affinity::CoreId { id: core });
}

/// Nanoseconds for each operation of a run, which returns their number: the first decile of all runs.
fn tenth(mut run: impl FnMut() -> f64) -> f64 {
    let (start, mut all) = (Instant::now(), vec![]);
    while start.elapsed() < LONG {
        let begin = Instant::now();
        let many = run();
        all.push(begin.elapsed().as_nanos() as f64 / many);
    }
    all.sort_by(f64::total_cmp);
    all[all.len() / 10]
}

/// A round trip of one word.
fn bare(cores: [usize; 2]) -> f64 {
    #[repr(align(128))]
    struct Line(AtomicU64);
    let [there, back] = [Line(AtomicU64::new(0)), Line(AtomicU64::new(0))];
    thread::scope(|threads| {
        threads.spawn(|| {
            pin(cores[1]);
            let mut last = 0;
            while last != u64::MAX {
                let now = there.0.load(Acquire);
                if now != last {
                    last = now;
                    back.0.store(now, Release);
                }
            }
        });
        pin(cores[0]);
        let mut rounds = 0u64;
        let each = tenth(|| {
            for _ in 0..200 {
                rounds += 1;
                there.0.store(rounds, Release);
                while back.0.load(Acquire) != rounds {}
            }
            200.0
        });
        there.0.store(u64::MAX, Release);
        each
    })
}

/// Send a frame of this length to the other end.
fn send(end: &mut Shm, to: Address, len: usize) -> bool {
    let Some(mut buffer) = end.caps().pool.take() else { return false };
    let Some(space) = buffer.space() else { return false };
    let header = Header { kind: Kind::Request, flow: FLOW, nonce: 0, handler: 0, words: 0, seq: 0 };
    let link = LinkAddresses { to, from: end.caps().address, ethertype: EtherType::DEFAULT };
    let body = len - Framing::Bare.body_at();
    let Ok(len) = frame::emit(space, Framing::Bare, &link, &header, body, None) else { return false };
    buffer.set_len(len);
    end.send(to, &buffer)
}

/// The end that answers with frames of a length, or only receives.
fn far(mut end: Shm, answers: Option<usize>, is: &AtomicU64, done: &AtomicBool) {
    end.steer(FLOW, true);
    is.store(end.caps().address.to_u64(), Release);
    let mut sink = vec![0u8; end.caps().max_frame];
    let mut from = None;
    while !done.load(Relaxed) {
        let taken = end.receive(64, &mut |frame| {
            let bytes = frame.bytes();
            sink[..bytes.len()].copy_from_slice(bytes);
        });
        if let (Some(len), 1..) = (answers, taken) {
            let to = *from.get_or_insert_with(|| Address::from_u64(NEAR.load(Acquire)));
            send(&mut end, to, len);
        }
        end.flush();
    }
}

/// Two members on their cores. One answers, or receives, until the other is done.
fn pair(
    cores: [usize; 2],
    answers: Option<usize>,
    near: impl FnOnce(&mut Shm, Address) -> f64,
) -> Result<f64, am_shm::ShmOpenError> {
    let options = ShmOptions::new(format!("roundtrip-{}", std::process::id()));
    let (done, far_is) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|threads| {
        let other = threads.spawn(|| {
            pin(cores[1]);
            far(am_shm::open(&options)?, answers, &far_is, &done);
            Ok::<_, am_shm::ShmOpenError>(())
        });
        pin(cores[0]);
        let mut end = am_shm::open(&options)?;
        end.steer(FLOW, true);
        NEAR.store(end.caps().address.to_u64(), Release);
        while far_is.load(Acquire) == 0 && !other.is_finished() {
            thread::yield_now();
        }
        let figure = near(&mut end, Address::from_u64(far_is.load(Acquire)));
        done.store(true, Relaxed);
        other.join().expect("the other thread ends")?;
        Ok(figure)
    })
}

/// The address of the end that asks.
static NEAR: AtomicU64 = AtomicU64::new(0);

/// Nanoseconds of a round trip.
fn round_trip(cores: [usize; 2], len: usize) -> Result<f64, am_shm::ShmOpenError> {
    pair(cores, Some(len), |end, to| {
        tenth(|| {
            for _ in 0..200 {
                send(end, to, len);
                end.flush();
                while end.receive(64, &mut |_| ()) == 0 {}
            }
            200.0
        })
    })
}

/// Frames in a second, one way.
fn rate(cores: [usize; 2], len: usize) -> Result<f64, am_shm::ShmOpenError> {
    pair(cores, None, |end, to| {
        let each = tenth(|| {
            let mut sent = 0.0;
            // More than the lane holds, so that the other end's cost is included.
            while sent < 10_000.0 {
                (0..32).for_each(|_| sent += f64::from(u8::from(send(end, to, len))));
                end.flush();
            }
            sent
        });
        1e9 / each
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let cores: Vec<usize> = std::env::args().skip(1).map(|core| core.parse()).collect::<Result<_, _>>()?;
    let cores = cores.try_into().unwrap_or([0, 1]);
    let line = bare(cores);
    println!("cores {cores:?}; a word there and back  {line:7.0} ns");
    for len in [60, 128, 256, 1514, 4096, 16384] {
        let (rtt, rate) = (round_trip(cores, len)?, rate(cores, len)?);
        println!(
            "frame of {len:5} bytes  there and back {rtt:7.0} ns = {:4.1} x   one way {:6.2} M/s = {:6.2} GB/s",
            rtt / line,
            rate / 1e6,
            rate * len as f64 / 1e9
        );
    }
    Ok(())
}
