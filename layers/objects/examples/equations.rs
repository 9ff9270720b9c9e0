//! A solver of linear equations by Jacobi's method (Bal et al., 1997, section 5.2.2): all workers share one object, which has the vector.
//!
//! ```text
//! cargo run -p am-objects --example equations -- [WORKERS [TRANSPORT [EQUATIONS [ITERATIONS]]]]
//!
//! equations                       two workers over shared memory, 300 equations, at most 2,070 iterations
//! equations 2 sim:7 100 50        over another transport that many nodes of one process share
//! ```
//!
//! Each worker is a thread with a node and a member of its own, and has a part of the rows. In each iteration it writes its part of the
//! vector, waits for the others' parts, and reads its copy of the vector. The exit code is 1 if the solution differs in any bit from
//! that of one thread without objects.

use std::env::args;
use std::error::Error;
use std::ops::Range;
use std::process::{ExitCode, id};
use std::thread;
use std::time::{Duration, Instant};

use am_api::Node;
use am_objects::{CallError, Settings, Shared, Space, Wire, object};

type Failure = Box<dyn Error + Send + Sync>;
/// The number of iterations, and the vector.
type Solution = (u64, Vec<f64>);

const SEED: u64 = 1997;
const LONG: Duration = Duration::from_secs(30);
/// The sum of a row's other elements, as a part of its diagonal element: the error decays by this factor in each iteration.
const DECAY: f64 = 0.99;
/// An iteration that changes no element by more is the last one.
const TOLERANCE: f64 = 1e-9;

/// The vector, and the parts of the next one that have arrived.
#[derive(Wire)]
struct Vector {
    workers: u64,
    iteration: u64,
    x: Vec<f64>,
    /// The largest change of the iteration.
    change: f64,
    parts: u64,
    next_x: Vec<f64>,
    next_change: f64,
}

#[object]
impl Vector {
    #[read]
    fn x(&self) -> Vec<f64> {
        self.x.clone()
    }

    /// One worker's part of the next vector. The last part completes the iteration.
    #[write]
    fn put(&mut self, at: u64, part: Vec<f64>, change: f64) {
        self.next_x[at as usize..][..part.len()].copy_from_slice(&part);
        self.next_change = self.next_change.max(change);
        self.parts += 1;
        if self.parts == self.workers {
            std::mem::swap(&mut self.x, &mut self.next_x);
            self.change = std::mem::take(&mut self.next_change);
            self.parts = 0;
            self.iteration += 1;
        }
    }

    /// Waits until this iteration is complete. Returns its change. The next iteration cannot be complete before the caller has put its
    /// part.
    #[write]
    fn completed(&mut self, iteration: u64) -> f64 {
        when! {
            self.iteration >= iteration => self.change,
        }
    }
}

/// Equations whose solution is known to be found.
struct System {
    rows: Vec<Vec<f64>>,
    right: Vec<f64>,
}

impl System {
    fn new(count: usize) -> System {
        let mut seed = SEED;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut rows: Vec<Vec<f64>> = (0..count).map(|_| (0..count).map(|_| random()).collect()).collect();
        for (at, row) in rows.iter_mut().enumerate() {
            row[at] = 0.0;
            row[at] = row.iter().sum::<f64>() / DECAY;
        }
        let solution: Vec<f64> = (0..count).map(|_| random()).collect();
        let right = rows.iter().map(|row| row.iter().zip(&solution).map(|(a, x)| a * x).sum()).collect();
        System { rows, right }
    }

    /// These rows of the next vector, and their largest change.
    fn iterate(&self, x: &[f64], rows: Range<usize>) -> (Vec<f64>, f64) {
        let mut change = 0.0_f64;
        let next = rows.map(|at| {
            let row = &self.rows[at];
            let sum = row.iter().zip(x).fold(0.0, |sum, (a, x)| sum + a * x) - row[at] * x[at];
            let next = (self.right[at] - sum) / row[at];
            change = change.max((next - x[at]).abs());
            next
        });
        (next.collect(), change)
    }

    /// One thread, without objects.
    fn solve(&self, most: u64) -> Solution {
        let mut x = vec![0.0; self.rows.len()];
        for iteration in 1..=most {
            let (next, change) = self.iterate(&x, 0..x.len());
            x = next;
            if change <= TOLERANCE {
                return (iteration, x);
            }
        }
        (most, x)
    }
}

fn open(number: usize, workers: usize, transport: &str, count: usize) -> Result<(Space, Shared<Vector>), Failure> {
    let node = Node::open(&format!("equations{workers}-{number}"), transport)?;
    // A worker that computes answers late.
    let settings = Settings { silence: LONG / 10, patience: LONG, slow: None, ..Settings::default() };
    let builder = Space::builder(&node).object::<Vector>().settings(settings);
    let mut space = match number {
        0 => builder.found("equations")?,
        _ => builder.join("equations", &[format!("equations{workers}-0")])?,
    };
    if !space.wait_until(LONG, |space| space.is_primary() && space.view().members.len() == workers) {
        return Err(space.health().unwrap_or_else(|| "the other workers are not there".into()).into());
    }
    let (x, next_x) = (vec![0.0; count], vec![0.0; count]);
    let empty = Vector { workers: workers as u64, iteration: 0, x, change: 0.0, parts: 0, next_x, next_change: 0.0 };
    let vector = space.create("vector", &empty)?;
    Ok((space, vector))
}

/// Solve the system with the other workers. Returns the time from when all were there.
fn work(
    number: usize,
    workers: usize,
    transport: &str,
    system: &System,
    most: u64,
) -> Result<(Duration, Solution), Failure> {
    let count = system.rows.len();
    let (mut space, vector) = open(number, workers, transport, count)?;
    let rows = count * number / workers..count * (number + 1) / workers;
    let began = Instant::now();
    let (mut x, mut iteration, mut change) = (vec![0.0; count], 0, f64::INFINITY);
    while iteration < most && change > TOLERANCE {
        let (part, own_change) = system.iterate(&x, rows.clone());
        iteration += 1;
        // Both leave at once.
        let (put, completed) =
            (vector.write().put(rows.start as u64, part, own_change), vector.write().completed(iteration));
        change = space.block_on(async {
            put.await?;
            completed.await
        })?;
        x = vector.read().x().now().unwrap_or(Err(CallError::Unknown))?;
    }
    let time = began.elapsed();
    space.leave(LONG)?;
    Ok((time, (iteration, x)))
}

fn main() -> Result<ExitCode, Failure> {
    let args: Vec<String> = args().skip(1).collect();
    let most_workers = args.first().map_or(Ok(2), |workers| workers.parse())?;
    let transport = &args.get(1).cloned().unwrap_or_else(|| format!("shm:equations-{}", id()));
    let system = &System::new(args.get(2).map_or(Ok(300), |count| count.parse())?);
    let most = args.get(3).map_or(Ok(2070), |most| most.parse())?;
    let began = Instant::now();
    let alone = system.solve(most);
    let base = began.elapsed().as_secs_f64();
    println!("{} equations, {} iterations\nworkers  seconds  speed-up  equal", system.rows.len(), alone.0);
    println!("{:>7}  {base:7.3}  {:8.2}  {:>5}", "alone", 1.0, "-");
    let mut equal = true;
    for workers in 1..=most_workers {
        let results = thread::scope(|scope| {
            let start = |number| scope.spawn(move || work(number, workers, transport, system, most));
            let threads: Vec<_> = (0..workers).map(start).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Result<Vec<_>, Failure>>()
        })?;
        let time = results.iter().map(|(time, _)| time.as_secs_f64()).fold(0.0, f64::max);
        let is_equal = results.iter().all(|(_, solution)| *solution == alone);
        println!("{workers:>7}  {time:7.3}  {:8.2}  {:>5}", base / time, if is_equal { "yes" } else { "no" });
        equal &= is_equal;
    }
    Ok(if equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
