//! How long things take on this machine: a step of each worker, alone, and the execution of a write.

use std::hint::black_box;
use std::process::id;
use std::time::{Duration, Instant};

use am_api::Node;
use am_measure::hosts::world::Nanos;
use am_measure::{Error, Watch, drivers::facility};
use am_objects::{CallError, Space};

use crate::programs::{Program, patient};

/// Steps of one measurement.
const STEPS: usize = 60;
/// Writes that are made at once, and how often.
const WRITES: u64 = 32;
const BATCHES: u64 = 400;
/// Longer than two spaces need to find each other.
const LONG: Duration = Duration::from_secs(10);

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

/// What a worker's writes cost a process: its own one, from the call to the result, and one of another process, from the frame to the copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) own: Nanos,
    pub(super) other: Nanos,
}

impl Operation {
    /// What a write costs a process on average, if all processes write in turn.
    pub(super) fn mean(self, hosts: usize) -> Nanos {
        (self.own + (hosts as Nanos - 1) * self.other) / hosts as Nanos
    }

    /// The turns of two spaces that one thread polls in turn, over shared memory. Many writes are made at once, so that a turn of the node
    /// is shared by many; the transport's own cost is in it.
    pub(super) fn measure<P: Program>(program: &P, workers: usize) -> Result<Operation, Error> {
        let on = format!("shm:speedups-{}-{}", P::NAME, id());
        let nodes = ["near", "far"].map(|name| Node::open(name, &on).map_err(facility));
        let [near, far] = nodes;
        let mut near = patient::<P>(Space::builder(&near?)).found(P::NAME).map_err(facility)?;
        let objects = program.create(&mut near, workers).map_err(facility)?;
        let mut far = patient::<P>(Space::builder(&far?)).join(P::NAME, &["near"]).map_err(facility)?;
        let copies = until(&mut [&mut near, &mut far], |spaces| match spaces[1].view().members.len() {
            2 => program.open(spaces[1], workers),
            _ => Ok(None),
        })?;
        let (mut own, mut other) = (vec![], vec![]);
        for batch in 0..BATCHES {
            // The number of a step is that of writes, because one worker makes all of them.
            let steps = batch * WRITES + 1..=(batch + 1) * WRITES;
            let wanted = *steps.end();
            let write = || -> Vec<_> { steps.map(|step| program.write(&objects, workers, step)).collect() };
            let (calls, mut near_time) = timed(write);
            let mut far_time = Duration::ZERO;
            let is_there = |objects: &P::Objects| P::written(objects).map(|written| written >= wanted);
            while !is_there(&objects).map_err(facility)? || !is_there(&copies).map_err(facility)? {
                near_time += busy(&mut near);
                far_time += busy(&mut far);
            }
            drop(calls);
            own.push(near_time.as_nanos() as Nanos / WRITES);
            other.push(far_time.as_nanos() as Nanos / WRITES);
        }
        Ok(Operation { own: middle(own), other: middle(other) })
    }
}

/// The time of a turn in which there was something to do.
fn busy(space: &mut Space) -> Duration {
    let (done, time) = timed(|| space.poll());
    if done > 0 { time } else { Duration::ZERO }
}

/// Poll all until this is there.
fn until<R>(
    spaces: &mut [&mut Space],
    mut find: impl FnMut(&[&mut Space]) -> Result<Option<R>, CallError>,
) -> Result<R, Error> {
    let began = Instant::now();
    while began.elapsed() < LONG {
        spaces.iter_mut().for_each(|space| _ = space.poll());
        if let Some(found) = find(spaces).map_err(facility)? {
            return Ok(found);
        }
    }
    Err(Error::Lost("a space of two did not come together".to_owned()))
}

fn middle(mut samples: Vec<Nanos>) -> Nanos {
    samples.sort_unstable();
    samples[samples.len() / 2]
}
