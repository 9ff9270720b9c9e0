//! The travelling salesman by branch and bound, on two shared objects: a queue of jobs, and the shortest tour so far.
//!
//! ```text
//! cargo run -p am-objects --example tsp -- [WORKERS [TRANSPORT [CITIES]]]
//!
//! tsp                     two workers over shared memory, 14 cities
//! tsp 2 sim:7 12          over another transport that many nodes of one process share, 12 cities
//! ```
//!
//! Each worker is a thread with a node and a member of its own. Its copy of the shortest tour is its bound: to read it costs no message. It
//! splits its job into longer ones, or searches below it. The exit code is 1 if the tour differs from that of one thread without objects.

#[path = "programs/workers.rs"]
mod workers;

use std::collections::VecDeque;
use std::process::{ExitCode, id};
use std::time::{Duration, Instant};

use am_api::Node;
use am_objects::codec::Decode;
use am_objects::{Call, CallError, Settings, Shared, Space, Wire, object};
use clap::Parser;
use workers::{Cause, Failure, MOST, check, run, wait_for_all};

/// The length of a tour or of its beginning, and its cities.
type Tour = (u32, Vec<u8>);

const SEED: u64 = 1997;
/// A job with fewer cities is split.
const SPLIT: usize = 4;
/// A worker polls its space once for this number of visited tours.
const POLL: u64 = 4096;
const LONG: Duration = Duration::from_secs(30);

/// Jobs that no worker has taken, and the number of those that a worker has taken and not finished. A job is the beginning of a tour.
#[derive(Wire)]
struct Jobs {
    waiting: VecDeque<Tour>,
    taken: u32,
}

#[object]
impl Jobs {
    /// Waits for a job. `None` once all are finished: a job that is taken may still add others.
    #[write]
    #[guard(!self.waiting.is_empty() || self.taken == 0)]
    fn next(&mut self) -> Option<Tour> {
        let job = self.waiting.pop_front();
        self.taken += u32::from(job.is_some());
        job
    }

    /// A job is finished, and these are left of it.
    #[write]
    fn finish(&mut self, more: Vec<Tour>) {
        self.taken -= 1;
        self.waiting.extend(more);
    }
}

/// The shortest tour so far. Of equal lengths the first in the order of the cities, so that workers that find them in another order come
/// to the same tour.
#[derive(Wire)]
struct Best {
    tour: Tour,
}

#[object]
impl Best {
    #[read]
    fn length(&self) -> u32 {
        self.tour.0
    }

    #[read]
    fn tour(&self) -> Tour {
        self.tour.clone()
    }

    #[write]
    fn improve(&mut self, tour: Tour) {
        if tour < self.tour {
            self.tour = tour;
        }
    }
}

/// A read has its result at once.
fn now<R: for<'a> Decode<'a>>(read: Call<R>) -> Result<R, CallError> {
    read.now().unwrap_or(Err(CallError::Unknown))
}

/// What a search compares with.
trait Bound {
    fn length(&mut self) -> Result<u32, CallError>;
    fn improve(&mut self, length: u32, tour: &[u8]) -> Result<(), CallError>;
}

/// One thread, without objects.
impl Bound for Tour {
    fn length(&mut self) -> Result<u32, CallError> {
        Ok(self.0)
    }

    fn improve(&mut self, length: u32, tour: &[u8]) -> Result<(), CallError> {
        *self = (length, tour.to_vec()).min(std::mem::take(self));
        Ok(())
    }
}

struct Worker {
    space: Space,
    jobs: Shared<Jobs>,
    best: Shared<Best>,
    visited: u64,
}

impl Bound for Worker {
    fn length(&mut self) -> Result<u32, CallError> {
        self.visited += 1;
        if self.visited.is_multiple_of(POLL) {
            self.space.poll();
        }
        now(self.best.read().length())
    }

    /// The write leaves with the next poll, and before what this worker writes later: the last job is finished after it.
    fn improve(&mut self, length: u32, tour: &[u8]) -> Result<(), CallError> {
        let tour = (length, tour.to_vec());
        if tour < now(self.best.read().tour())? {
            _ = self.best.write().improve(tour);
        }
        Ok(())
    }
}

/// Distances between cities, and the other cities of each, the nearest first.
struct Map {
    distances: Vec<Vec<u32>>,
    nearest: Vec<Vec<u8>>,
}

impl Map {
    fn new(cities: usize) -> Map {
        let mut seed = SEED;
        let mut coordinate = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as f64 % 1000.0
        };
        let places: Vec<(f64, f64)> = (0..cities).map(|_| (coordinate(), coordinate())).collect();
        let distance = |a: &(f64, f64), b: &(f64, f64)| (a.0 - b.0).hypot(a.1 - b.1).round() as u32;
        let row = |from| places.iter().map(|to| distance(from, to)).collect();
        let distances: Vec<Vec<u32>> = places.iter().map(row).collect();
        let sorted = |row: &Vec<u32>| {
            let mut others: Vec<u8> = (0..cities as u8).collect();
            others.sort_by_key(|to| row[usize::from(*to)]);
            others
        };
        Map { nearest: distances.iter().map(sorted).collect(), distances }
    }

    /// The job with one city more, for each city that is not in it.
    fn longer<'a>(&'a self, tour: &[u8]) -> impl Iterator<Item = (u32, u8)> + use<'a> {
        let last = usize::from(tour[tour.len() - 1]);
        let used = tour.iter().fold(0_u32, |used, city| used | 1 << city);
        let free = self.nearest[last].iter().filter(move |next| used & 1 << **next == 0);
        free.map(move |next| (self.distances[last][usize::from(*next)], *next))
    }

    fn search(&self, tour: &mut Vec<u8>, length: u32, bound: &mut impl Bound) -> Result<(), CallError> {
        if length > bound.length()? {
            return Ok(());
        }
        if tour.len() == self.distances.len() {
            return bound.improve(length + self.distances[usize::from(tour[tour.len() - 1])][0], tour);
        }
        for (distance, next) in self.longer(tour) {
            tour.push(next);
            self.search(tour, length + distance, bound)?;
            tour.pop();
        }
        Ok(())
    }
}

fn open(number: usize, workers: usize, transport: &str, cause: &Cause) -> Result<Worker, Failure> {
    let node = Node::open(&format!("tsp{workers}-{number}"), transport)?;
    // A worker that computes answers late.
    let settings = Settings { silence: LONG / 10, patience: LONG, slow: None, ..Settings::default() };
    let builder = Space::builder(&node).object::<Jobs>().object::<Best>().settings(settings);
    let mut space = match number {
        0 => builder.found("tsp")?,
        _ => builder.join("tsp", &[format!("tsp{workers}-0")])?,
    };
    wait_for_all(&mut space, number, workers, cause)?;
    let jobs = space.create("jobs", &Jobs { waiting: [(0, vec![0])].into(), taken: 0 })?;
    let best = space.create("best", &Best { tour: (u32::MAX, vec![]) })?;
    Ok(Worker { space, jobs, best, visited: 0 })
}

/// Search with the other workers. Returns the time from when all were there.
fn work(number: usize, workers: usize, transport: &str, map: &Map, cause: &Cause) -> Result<(Duration, Tour), Failure> {
    let mut worker = open(number, workers, transport, cause)?;
    let began = Instant::now();
    let mut job = worker.space.block_on(worker.jobs.write().next())?;
    while let Some((length, mut tour)) = job {
        let more = if tour.len() < SPLIT.min(map.distances.len()) {
            map.longer(&tour).map(|(distance, next)| (length + distance, [&tour[..], &[next]].concat())).collect()
        } else {
            map.search(&mut tour, length, &mut worker)?;
            vec![]
        };
        _ = worker.jobs.write().finish(more);
        job = worker.space.block_on(worker.jobs.write().next())?;
    }
    let result = (began.elapsed(), now(worker.best.read().tour())?);
    worker.space.leave(LONG)?;
    Ok(result)
}

/// Find the shortest tour with one worker, two, and so on. The exit code is 1 if a tour differs from that of one thread.
#[derive(Parser)]
struct Options {
    /// The most workers: threads, each with a node.
    #[arg(default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=MOST))]
    workers: u8,
    /// A transport that many nodes of one process share. Shared memory unless one is named: with more than 16 workers, such as `shm:lab,members=64`.
    transport: Option<String>,
    /// The number of cities.
    #[arg(default_value_t = 14, value_parser = clap::value_parser!(u8).range(1..=20))]
    cities: u8,
}

fn main() -> Result<ExitCode, Failure> {
    let Options { workers: most, transport, cities } = Options::parse();
    let transport = &transport.unwrap_or_else(|| format!("shm:tsp-{}", id()));
    let map = &Map::new(cities.into());
    check(transport, most.into())?;
    let (began, mut alone) = (Instant::now(), (u32::MAX, vec![]));
    map.search(&mut vec![0], 0, &mut alone)?;
    let base = began.elapsed().as_secs_f64();
    println!("{} cities, the shortest tour: {}\nworkers  seconds  speed-up  equal", map.distances.len(), alone.0);
    println!("{:>7}  {base:7.3}  {:8.2}  {:>5}", "alone", 1.0, "-");
    let mut equal = true;
    for workers in 1..=most.into() {
        let results = run(workers, |number, cause| work(number, workers, transport, map, cause))?;
        let time = results.iter().map(|(time, _)| time.as_secs_f64()).fold(0.0, f64::max);
        let is_equal = results.iter().all(|(_, tour)| *tour == alone);
        println!("{workers:>7}  {time:7.3}  {:8.2}  {:>5}", base / time, if is_equal { "yes" } else { "no" });
        equal &= is_equal;
    }
    Ok(if equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
