//! **What `am-bench speedups` measures**: Water and the solver of linear equations (the Orca paper's figures 6 and 7), which are the
//! examples of `layers/objects`, on 1 to 8 simulated hosts and on this machine's cores.
//!
//! ```text
//!   layers/objects/examples/programs ─▶ times.rs: a step of each worker, alone on this machine; a write, without network
//!                                    ─▶ host.rs: the same program on simulated hosts, each busy for these times
//!                                    ─▶ on_threads: the same on this machine's cores, over shared memory
//!   ─▶ report.rs
//! ```
//!
//! No two threads of a simulated run compete for a core: a host computes its step for real, and is then busy for as long as the step
//! takes alone.

mod host;
mod report;
mod times;

use std::process::id;
use std::rc::Rc;
use std::time::Duration;

use am_measure::hosts::world::{Cable, Nanos, World};
use am_measure::options::{Origin, PlotOption, Print, usage};
use am_measure::{Error, Progress, Watch};
use clap::Args;

use crate::programs::Program;
use crate::programs::equations::System;
use crate::programs::on_threads;
use crate::programs::water::Water;
use host::{Host, Seen};
use times::{Operation, Times, timed};

/// The options of `speedups`.
#[derive(Clone, Debug, Args)]
pub struct SpeedupsArgs {
    /// Simulated hosts
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,6,8", value_name = "N,...", value_parser = hosts, help_heading = "What")]
    hosts: Vec<usize>,
    /// Of Water
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = at_least_hosts, help_heading = "What")]
    molecules: usize,
    /// Steps of Water
    #[arg(long, default_value_t = 100, value_name = "N", help_heading = "What")]
    steps: u64,
    /// Equations of the solver; with several numbers the first is simulated on all hosts, the others on the most
    #[arg(long, value_delimiter = ',', default_value = "300,600,900,1200", value_name = "N,...", value_parser = at_least_hosts, help_heading = "What")]
    equations: Vec<usize>,
    /// Iterations of the solver, at most
    #[arg(long, default_value_t = 2070, value_name = "N", help_heading = "What")]
    iterations: u64,
    /// What a write of two processes takes, in nanoseconds; the simulated links have the delay with which it does [default: as measured
    /// over a veth, docs/results/objects.txt, or what it takes here without links]
    #[arg(long, value_name = "NS", help_heading = "Where")]
    write: Option<Nanos>,
    /// How many times each time is measured
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u8).range(1..), help_heading = "How much")]
    rounds: u8,
    #[command(flatten)]
    print: Print,
    #[command(flatten)]
    plot: PlotOption,
}

/// The median of a write of two processes over a veth, Agreed (`docs/results/objects.txt`).
const WRITE: Nanos = 9_460;
/// From a host to the switch, and from there to another host, before the links are fitted.
const DELAY: Nanos = 1_000;
/// A write passes this number of links: to the sequencer and back.
const LINKS: Nanos = 4;
const MTU: u32 = 1500;
const MOST_HOSTS: usize = 16;
/// The next time the simulation is looked at.
const LOOK: Nanos = 1_000_000;
/// A program ends within this virtual time.
const LIMIT: Nanos = 60_000_000_000;

fn hosts(text: &str) -> Result<usize, String> {
    let fits = |count: &usize| (1..=MOST_HOSTS).contains(count);
    text.parse().ok().filter(fits).ok_or_else(|| format!("from 1 to {MOST_HOSTS}"))
}

fn at_least_hosts(text: &str) -> Result<usize, String> {
    let fits = |count: &usize| (MOST_HOSTS..=10_000).contains(count);
    text.parse().ok().filter(fits).ok_or_else(|| format!("from {MOST_HOSTS} to 10000"))
}

/// Where a row was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// On hosts in virtual time, with compute times of this machine.
    Simulated,
    /// Threads of this machine, over shared memory.
    Measured,
}

/// One row.
#[derive(Debug)]
struct Row {
    program: &'static str,
    /// Molecules, or equations.
    size: usize,
    mode: Mode,
    hosts: usize,
    /// The longest compute time of a worker's step.
    compute: Option<Nanos>,
    /// Of a step, communication included.
    step: f64,
    /// One thread's time over this.
    speed_up: f64,
    /// A write of one worker while the others wait, until it is done.
    write: Option<Nanos>,
    /// Whether all workers have found what one thread finds, bit by bit.
    is_equal: bool,
}

#[derive(Debug)]
struct Speedups {
    rows: Vec<Row>,
    /// What writes cost a simulated host: the program, its size, and the times.
    operations: Vec<(&'static str, usize, Operation)>,
    /// Of each simulated link.
    delay: Nanos,
    args: SpeedupsArgs,
}

impl SpeedupsArgs {
    /// All checks before the measurement.
    ///
    /// # Errors
    /// Two files are one, or cannot be written.
    pub fn check(&self) -> Result<(), Error> {
        self.plot.check(&self.print)
    }

    /// Measure compute times, simulate, measure, print, and plot if asked.
    ///
    /// # Errors
    /// It was interrupted, or a program does not end.
    pub fn run(&self, watch: &Watch) -> Result<(), Error> {
        self.check()?;
        let cores = am_measure::members::usable_cores().min(2);
        let more = self.equations.len().saturating_sub(1);
        let progress = &Progress::new(2 * (self.hosts.len() + cores) + more, self.print.json);
        let mut all = Speedups { rows: vec![], operations: vec![], delay: self.fit(watch)?, args: self.clone() };
        let water = Rc::new(Water::new(self.molecules, self.steps));
        all.program(&water, (self.molecules, self.steps), cores, progress, watch)?;
        for (nth, equations) in self.equations.iter().enumerate() {
            let system = Rc::new(System::new(*equations, self.iterations));
            // Larger systems need as many iterations: the error decays by the same factor.
            let iterations = system.alone().0;
            if nth == 0 {
                all.program(&system, (*equations, iterations), cores, progress, watch)?;
            } else {
                let most = self.hosts.iter().max().copied().unwrap_or(1);
                all.simulate(&system, (*equations, iterations), &[most], progress, watch)?;
            }
        }
        self.print.publish(all.report(), &Origin::new("sim", Some(MTU)))?;
        self.plot.write(|| all.svg())
    }
}

impl SpeedupsArgs {
    /// The delay with which a simulated write takes what is asked for.
    fn fit(&self, watch: &Watch) -> Result<Nanos, Error> {
        let least = Rc::new(System::new(MOST_HOSTS, 1));
        let operation = Operation::measure(&*least, 2)?.mean(2);
        let charges = Charges { steps: vec![0; 2], operation, delay: DELAY };
        let wanted = self.write.unwrap_or(WRITE);
        let write = run(&least, 2, &charges, watch)?.write.unwrap_or(wanted);
        let fitted = (wanted as i64 - write as i64) / LINKS as i64 + DELAY as i64;
        match Nanos::try_from(fitted) {
            Ok(delay) => Ok(delay),
            // A busy machine, or a slow one.
            Err(_) if self.write.is_none() => Ok(0),
            Err(_) => Err(usage(format!("--write: without links it takes {} ns", write - LINKS * DELAY))),
        }
    }
}

impl Speedups {
    /// Simulated, and on this machine's cores.
    fn program<P: Program + 'static>(
        &mut self,
        program: &Rc<P>,
        amount: (usize, u64),
        cores: usize,
        progress: &Progress,
        watch: &Watch,
    ) -> Result<(), Error> {
        let hosts = self.args.hosts.clone();
        self.simulate(program, amount, &hosts, progress, watch)?;
        self.measure(&**program, amount, cores, progress, watch)
    }

    fn simulate<P: Program + 'static>(
        &mut self,
        program: &Rc<P>,
        (size, steps): (usize, u64),
        hosts: &[usize],
        progress: &Progress,
        watch: &Watch,
    ) -> Result<(), Error> {
        let most = hosts.iter().max().copied().unwrap_or(1);
        progress.say(&format!("a write of {}", P::NAME));
        let operation = Operation::measure(&**program, most)?;
        self.operations.push((P::NAME, size, operation));
        let alone = program.alone();
        for hosts in hosts {
            progress.say(&format!("{} on {hosts} simulated hosts", P::NAME));
            let times = Times::measure(&**program, *hosts, usize::from(self.args.rounds), watch)?;
            let operation = operation.mean(*hosts);
            let charges = Charges { steps: times.steps.clone(), operation, delay: self.delay };
            let seen = run(program, *hosts, &charges, watch)?;
            let time = seen.time();
            self.rows.push(Row {
                program: P::NAME,
                size,
                mode: Mode::Simulated,
                hosts: *hosts,
                compute: times.steps.iter().max().copied(),
                step: time as f64 / steps as f64,
                speed_up: times.alone as f64 * steps as f64 / time as f64,
                write: seen.write,
                is_equal: seen.solutions.iter().all(|solution| *solution == alone),
            });
            progress.done();
        }
        Ok(())
    }

    /// On this machine, and one thread alone in turn.
    fn measure<P: Program>(
        &mut self,
        program: &P,
        (size, steps): (usize, u64),
        cores: usize,
        progress: &Progress,
        watch: &Watch,
    ) -> Result<(), Error> {
        for workers in 1..=cores {
            progress.say(&format!("{} by {workers} threads", P::NAME));
            let (mut ratios, mut times, mut is_equal) = (vec![], vec![], true);
            for round in 0..self.args.rounds {
                watch.check()?;
                let (alone, base) = timed(|| program.alone());
                let place = format!("shm:speedups-{}-{workers}-{round}", id());
                let (time, solutions) =
                    on_threads(program, workers, &place).map_err(|why| Error::Facility(why.to_string()))?;
                ratios.push(base.as_secs_f64() / time.as_secs_f64());
                times.push(time.as_nanos() as f64);
                is_equal &= solutions.iter().all(|solution| *solution == alone);
            }
            self.rows.push(Row {
                program: P::NAME,
                size,
                mode: Mode::Measured,
                hosts: workers,
                compute: None,
                step: am_measure::median(&times).unwrap_or_default() / steps as f64,
                speed_up: am_measure::median(&ratios).unwrap_or_default(),
                write: None,
                is_equal,
            });
            progress.done();
        }
        Ok(())
    }
}

/// What a simulated host is busy with, in nanoseconds.
struct Charges {
    /// A step of each worker.
    steps: Vec<Nanos>,
    /// The execution of a write.
    operation: Nanos,
    /// Of a link.
    delay: Nanos,
}

/// Run the program on simulated hosts to its end.
fn run<P: Program + 'static>(
    program: &Rc<P>,
    hosts: usize,
    charges: &Charges,
    watch: &Watch,
) -> Result<Seen<P::Solution>, Error> {
    let cable = Cable { mtu: MTU, oversubscription: None, delay: charges.delay };
    let open = |seat| Host::open(seat, program, hosts, charges);
    let mut world: World<'_, Host<P>> = World::joined(hosts, cable, watch, open)?;
    while !world.hosts().all(Host::is_done) {
        let now = world.now();
        if now > LIMIT {
            return Err(Error::Lost(format!("{} did not end in {:?}", P::NAME, Duration::from_nanos(LIMIT))));
        }
        world.run_until(now + LOOK)?;
    }
    Ok(Seen::of(world.hosts_mut()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_hosts_compute_what_one_thread_computes_in_the_same_time_each_time() {
        let program = Rc::new(System::new(48, 20));
        let alone = program.alone();
        let times = |hosts: usize| {
            let charges = Charges { steps: vec![100_000 / hosts as u64; hosts], operation: 300, delay: DELAY };
            let seen = run(&program, hosts, &charges, &Watch::default()).expect("a run");
            assert!(seen.solutions.iter().all(|solution| *solution == alone));
            seen.time()
        };
        let [one, four, eight] = [times(1), times(4), times(8)];
        assert!(eight < 20 * (12_500 + 20_000), "no host waits for the sequencer to compute: {eight}");
        assert_eq!(four, times(4));
        assert!(one >= 20 * 100_000 && four >= 20 * 25_000 + 20 * 4 * DELAY, "{one} {four}");
        assert!(one as f64 / four as f64 > 1.5, "{one} {four}");
    }

    #[test]
    fn water_on_simulated_hosts_is_that_of_one_thread() {
        let program = Rc::new(Water::new(30, 10));
        let charges = Charges { steps: vec![50_000; 3], operation: 300, delay: DELAY };
        let seen = run(&program, 3, &charges, &Watch::default()).expect("a run");
        assert!(seen.solutions.iter().all(|solution| *solution == program.alone()) && seen.solutions.len() == 3);
        assert!(seen.write.is_some_and(|write| write > 4 * DELAY), "{:?}", seen.write);
    }
}
