//! Molecules that attract and repel each other, after Water (Bal et al., 1997, section 5.2.1): each worker has an object with the
//! positions of its molecules.
//!
//! ```text
//! cargo run -p am-objects --example water -- [WORKERS [TRANSPORT [MOLECULES [STEPS]]]]
//!
//! water                     two workers over shared memory, 100 molecules, 100 steps
//! water 2 sim:7 30 10       over another transport that many nodes of one process share
//! ```
//!
//! Each worker is a thread with a node and a member of its own. In each step it writes the new positions of its molecules to its object,
//! and waits until its copies of the others' objects have theirs: to read them costs no message. A molecule is a point with the
//! potential of Lennard-Jones in a periodic box; water's own potential, with three atoms, is not here. The exit code is 1 if a position
//! differs in any bit from that of one thread without objects: the forces on a molecule are summed in the same order everywhere.

use std::env::args;
use std::error::Error;
use std::ops::Range;
use std::process::{ExitCode, id};
use std::thread;
use std::time::{Duration, Instant};

use am_api::Node;
use am_objects::{CallError, Settings, Shared, Space, Wire, object};

type Failure = Box<dyn Error + Send + Sync>;
type Point = [f64; 3];

const SEED: u64 = 1997;
const LONG: Duration = Duration::from_secs(30);
const TIME_STEP: f64 = 0.004;
const DENSITY: f64 = 0.8;
/// Molecules that are farther apart exert no force.
const CUTOFF: f64 = 2.5;

/// The positions of one worker's molecules after a step, and after the one before: a worker is at most one step ahead of those that read
/// them.
#[derive(Wire)]
struct Part {
    step: u64,
    positions: Vec<Point>,
    before: Vec<Point>,
}

#[object]
impl Part {
    /// `None` if the step has not arrived here.
    #[read]
    fn after(&self, step: u64) -> Option<Vec<Point>> {
        match self.step.checked_sub(step)? {
            0 => Some(self.positions.clone()),
            1 => Some(self.before.clone()),
            _ => None,
        }
    }

    #[write]
    fn put(&mut self, step: u64, positions: Vec<Point>) {
        self.step = step;
        self.before = std::mem::replace(&mut self.positions, positions);
    }
}

/// All molecules at the beginning.
struct Start {
    positions: Vec<Point>,
    velocities: Vec<Point>,
    side: f64,
}

impl Start {
    fn new(count: usize) -> Start {
        let mut seed = SEED;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
        };
        let side = (count as f64 / DENSITY).cbrt();
        let sites = (count as f64).cbrt().ceil() as usize;
        let place = |at: usize| [at % sites, at / sites % sites, at / sites / sites];
        let mut near = |site: usize| (site as f64 + 0.5 + 0.1 * random()) * side / sites as f64;
        let positions = (0..count).map(|at| place(at).map(&mut near)).collect();
        let velocities = (0..count).map(|_| [random(), random(), random()]).collect();
        Start { positions, velocities, side }
    }
}

/// The molecules of one worker.
struct Molecules<'a> {
    all: Vec<Point>,
    own: Range<usize>,
    velocities: Vec<Point>,
    forces: Vec<Point>,
    start: &'a Start,
}

impl<'a> Molecules<'a> {
    fn new(start: &'a Start, own: Range<usize>) -> Molecules<'a> {
        let (all, velocities) = (start.positions.clone(), start.velocities[own.clone()].to_vec());
        let mut molecules = Molecules { all, own, velocities, forces: vec![], start };
        molecules.forces = molecules.own.clone().map(|at| molecules.force(at)).collect();
        molecules
    }

    /// The force of all other molecules on one, in the order of their numbers.
    fn force(&self, at: usize) -> Point {
        let (mut force, side) = ([0.0; 3], self.start.side);
        for other in (0..self.all.len()).filter(|other| *other != at) {
            let apart = [0, 1, 2].map(|axis| {
                let apart = self.all[at][axis] - self.all[other][axis];
                apart - side * (apart / side).round()
            });
            let square: f64 = apart.iter().map(|x| x * x).sum();
            if square < CUTOFF * CUTOFF {
                let sixth = square.powi(-3);
                let strength = 24.0 * sixth * (2.0 * sixth - 1.0) / square;
                (0..3).for_each(|axis| force[axis] += strength * apart[axis]);
            }
        }
        force
    }

    /// The new positions of this worker's molecules.
    fn moved(&self) -> Vec<Point> {
        let moved = |(at, position): (usize, &Point)| {
            let (velocity, force) = (self.velocities[at], self.forces[at]);
            [0, 1, 2].map(|axis| position[axis] + TIME_STEP * (velocity[axis] + TIME_STEP / 2.0 * force[axis]))
        };
        self.all[self.own.clone()].iter().enumerate().map(moved).collect()
    }

    /// All have moved.
    fn accelerate(&mut self, all: Vec<Point>) {
        self.all = all;
        let forces: Vec<Point> = self.own.clone().map(|at| self.force(at)).collect();
        for ((velocity, old), new) in self.velocities.iter_mut().zip(&self.forces).zip(&forces) {
            (0..3).for_each(|axis| velocity[axis] += TIME_STEP / 2.0 * (old[axis] + new[axis]));
        }
        self.forces = forces;
    }
}

fn part(number: usize, workers: usize, count: usize) -> Range<usize> {
    count * number / workers..count * (number + 1) / workers
}

fn open(number: usize, workers: usize, transport: &str, start: &Start) -> Result<(Space, Vec<Shared<Part>>), Failure> {
    let node = Node::open(&format!("water{workers}-{number}"), transport)?;
    // A worker that computes answers late.
    let settings = Settings { silence: LONG / 10, patience: LONG, slow: None, ..Settings::default() };
    let builder = Space::builder(&node).object::<Part>().settings(settings);
    let mut space = match number {
        0 => builder.found("water")?,
        _ => builder.join("water", &[format!("water{workers}-0")])?,
    };
    if !space.wait_until(LONG, |space| space.is_primary() && space.view().members.len() == workers) {
        return Err(space.health().unwrap_or_else(|| "the other workers are not there".into()).into());
    }
    let mut create = |number| {
        let positions = start.positions[part(number, workers, start.positions.len())].to_vec();
        space.create(&format!("part {number}"), &Part { step: 0, positions, before: vec![] })
    };
    let parts = (0..workers).map(&mut create).collect::<Result<_, _>>()?;
    Ok((space, parts))
}

/// The positions of all molecules after a step, once they are here.
fn gather(space: &mut Space, parts: &[Shared<Part>], step: u64) -> Result<Vec<Point>, Failure> {
    let mut all = Ok(None);
    let is_here = space.wait_until(LONG, |_| {
        let read = |part: &Shared<Part>| part.read().after(step).now().unwrap_or(Err(CallError::Unknown));
        all = parts.iter().map(read).collect::<Result<Option<Vec<_>>, _>>();
        !matches!(all, Ok(None))
    });
    match all? {
        Some(all) if is_here => Ok(all.concat()),
        _ => Err(space.health().unwrap_or_else(|| format!("a part of step {step} has not arrived")).into()),
    }
}

/// Compute the steps with the other workers. Returns the time from when all were there.
fn work(
    number: usize,
    workers: usize,
    transport: &str,
    start: &Start,
    steps: u64,
) -> Result<(Duration, Vec<Point>), Failure> {
    let (mut space, parts) = open(number, workers, transport, start)?;
    let began = Instant::now();
    let mut molecules = Molecules::new(start, part(number, workers, start.positions.len()));
    for step in 1..=steps {
        space.block_on(parts[number].write().put(step, molecules.moved()))?;
        let all = gather(&mut space, &parts, step)?;
        molecules.accelerate(all);
    }
    let time = began.elapsed();
    space.leave(LONG)?;
    Ok((time, molecules.all))
}

fn main() -> Result<ExitCode, Failure> {
    let args: Vec<String> = args().skip(1).collect();
    let most_workers = args.first().map_or(Ok(2), |workers| workers.parse())?;
    let transport = &args.get(1).cloned().unwrap_or_else(|| format!("shm:water-{}", id()));
    let start = &Start::new(args.get(2).map_or(Ok(100), |count| count.parse())?);
    let steps = args.get(3).map_or(Ok(100), |steps| steps.parse())?;
    let began = Instant::now();
    let mut alone = Molecules::new(start, 0..start.positions.len());
    (0..steps).for_each(|_| alone.accelerate(alone.moved()));
    let base = began.elapsed().as_secs_f64();
    println!("{} molecules, {steps} steps\nworkers  seconds  speed-up  equal", start.positions.len());
    println!("{:>7}  {base:7.3}  {:8.2}  {:>5}", "alone", 1.0, "-");
    let mut equal = true;
    for workers in 1..=most_workers {
        let results = thread::scope(|scope| {
            let start = |number| scope.spawn(move || work(number, workers, transport, start, steps));
            let threads: Vec<_> = (0..workers).map(start).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Result<Vec<_>, Failure>>()
        })?;
        let time = results.iter().map(|(time, _)| time.as_secs_f64()).fold(0.0, f64::max);
        let is_equal = results.iter().all(|(_, positions)| *positions == alone.all);
        println!("{workers:>7}  {time:7.3}  {:8.2}  {:>5}", base / time, if is_equal { "yes" } else { "no" });
        equal &= is_equal;
    }
    Ok(if equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
