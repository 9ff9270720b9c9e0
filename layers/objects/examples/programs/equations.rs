//! A solver of linear equations by Jacobi's method: all workers share one object, which has the vector.

use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use am_objects::{Builder, Call, CallError, Shared, Space, Wire, object};

use super::{Processor, Program, find_after, here};

/// The number of iterations, and the vector.
pub(crate) type Solution = (u64, Vec<f64>);

const SEED: u64 = 1997;
/// The sum of a row's other elements, as a part of its diagonal element: the error decays by this factor in each iteration.
const DECAY: f64 = 0.99;
/// An iteration that changes no element by more is the last one.
const TOLERANCE: f64 = 1e-9;

/// The vector, and the parts of the next one that have arrived.
#[derive(Wire)]
pub(crate) struct Vector {
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
    /// The vector after this iteration, and its largest change. `None` while it is not complete. The next iteration cannot be complete
    /// before the caller has put its part.
    #[read]
    fn after(&self, iteration: u64) -> Option<(f64, Vec<f64>)> {
        (self.iteration >= iteration).then(|| (self.change, self.x.clone()))
    }

    /// The number of parts that were put.
    #[read]
    fn written(&self) -> u64 {
        self.iteration * self.workers + self.parts
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
}

/// Equations whose solution is known to be found.
#[derive(Debug)]
pub(crate) struct System {
    rows: Vec<Vec<f64>>,
    right: Vec<f64>,
    most_iterations: u64,
}

impl System {
    pub(crate) fn new(count: usize, most_iterations: u64) -> System {
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
        System { rows, right, most_iterations }
    }

    /// The rows of a worker.
    pub(crate) fn part(&self, number: usize, workers: usize) -> Range<usize> {
        let count = self.rows.len();
        count * number / workers..count * (number + 1) / workers
    }

    /// These rows of the next vector, and their largest change.
    pub(crate) fn iterate(&self, x: &[f64], rows: Range<usize>) -> (Vec<f64>, f64) {
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
}

impl Program for System {
    type Objects = Shared<Vector>;
    type Solution = Solution;

    const NAME: &'static str = "equations";

    fn types(builder: Builder<'_>) -> Builder<'_> {
        builder.object::<Vector>()
    }

    fn create(&self, space: &mut Space, workers: usize) -> Result<Shared<Vector>, CallError> {
        let (x, next_x) = (vec![0.0; self.rows.len()], vec![0.0; self.rows.len()]);
        let workers = workers as u64;
        let empty = Vector { workers, iteration: 0, x, change: 0.0, parts: 0, next_x, next_change: 0.0 };
        space.create("vector", &empty)
    }

    fn open(&self, space: &Space, _: usize) -> Result<Option<Shared<Vector>>, CallError> {
        space.open("vector").transpose()
    }

    async fn work(
        &self,
        vector: &Shared<Vector>,
        number: usize,
        workers: usize,
        processor: &impl Processor,
    ) -> Result<Solution, CallError> {
        let rows = self.part(number, workers);
        let (mut x, mut iteration, mut change) = (vec![0.0; self.rows.len()], 0, f64::INFINITY);
        while iteration < self.most_iterations && change > TOLERANCE {
            let (part, own_change) = processor.compute(|| self.iterate(&x, rows.clone())).await;
            iteration += 1;
            let put = vector.write().put(rows.start as u64, part, own_change);
            (change, x) = find_after(put, || here(vector.read().after(iteration))).await?;
        }
        Ok((iteration, x))
    }

    fn alone(&self) -> Solution {
        let mut x = vec![0.0; self.rows.len()];
        for iteration in 1..=self.most_iterations {
            let (next, change) = self.iterate(&x, 0..x.len());
            x = next;
            if change <= TOLERANCE {
                return (iteration, x);
            }
        }
        (self.most_iterations, x)
    }

    fn step_times(&self, number: usize, workers: usize, steps: usize) -> Vec<Duration> {
        let rows = self.part(number, workers);
        let mut vectors = vec![vec![0.0; self.rows.len()]];
        while vectors.len() < steps {
            let (next, _) = self.iterate(&vectors[vectors.len() - 1], 0..self.rows.len());
            vectors.push(next);
        }
        let time = |x: &Vec<f64>| {
            let began = Instant::now();
            black_box(self.iterate(&x.clone(), rows.clone()));
            began.elapsed()
        };
        vectors.iter().map(time).collect()
    }

    fn write(&self, vector: &Shared<Vector>, workers: usize, _: u64) -> Call<()> {
        vector.write().put(0, vec![0.5; self.part(0, workers).len()], 1.0)
    }

    fn written(vector: &Shared<Vector>) -> Result<u64, CallError> {
        here(vector.read().written())
    }
}
