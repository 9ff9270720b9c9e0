//! How long things take on this machine: a step of each worker, alone, and the execution of a write.

use std::hint::black_box;
use std::process::id;
use std::time::{Duration, Instant};

use am_api::Node;
use am_measure::hosts::world::Nanos;
use am_measure::{Error, Watch, drivers::facility};
use am_objects::Space;

use crate::programs::{Program, patient};

/// Steps of one measurement.
const STEPS: usize = 60;
/// Writes that are made at once, and how often.
const WRITES: u64 = 32;
const BATCHES: u64 = 200;

/// Compute times of a step.
pub(super) struct Times {
    /// One thread, without objects.
    pub(super) alone: Nanos,
    /// Of each worker.
    pub(super) steps: Vec<Nanos>,
}

impl Times {
    /// The median of each worker's steps, which have the core in turn.
    pub(super) fn measure<P: Program>(
        program: &P,
        workers: usize,
        rounds: usize,
        watch: &Watch,
    ) -> Result<Times, Error> {
        let mut samples = vec![vec![]; workers + 1];
        for _ in 0..rounds {
            watch.check()?;
            samples[0].extend(program.step_times(0, 1, STEPS));
            for number in 0..workers {
                samples[number + 1].extend(program.step_times(number, workers, STEPS));
            }
        }
        let mut medians = samples.iter_mut().map(|samples| {
            samples.sort_unstable();
            samples[samples.len() / 2].as_nanos() as Nanos
        });
        Ok(Times { alone: medians.next().unwrap_or_default(), steps: medians.collect() })
    }
}

/// What it returns, and how long that takes.
pub(super) fn timed<R>(what: impl FnOnce() -> R) -> (R, Duration) {
    let began = Instant::now();
    let result = black_box(what());
    (result, began.elapsed())
}

/// A write of a worker's part in a space of one process, from the call to the result: encoded, ordered, decoded and run. Many are made at
/// once, so that a turn of the node is shared by many. A host that receives the write encodes nothing, so this is more than it costs there.
pub(super) fn operation<P: Program>(program: &P, workers: usize) -> Result<Nanos, Error> {
    let node = Node::open("alone", &format!("shm:speedups-{}-{}", P::NAME, id())).map_err(facility)?;
    let mut space = patient::<P>(Space::builder(&node)).found(P::NAME).map_err(facility)?;
    let objects = program.create(&mut space, workers).map_err(facility)?;
    let mut samples = vec![];
    for batch in 0..BATCHES {
        let began = Instant::now();
        let calls: Vec<_> = (1..=WRITES).map(|nth| program.write(&objects, workers, batch * WRITES + nth)).collect();
        for call in calls {
            space.block_on(call).map_err(facility)?;
        }
        samples.push(began.elapsed().as_nanos() as Nanos / WRITES);
    }
    samples.sort_unstable();
    Ok(samples[samples.len() / 2])
}
