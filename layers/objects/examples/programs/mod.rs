//! Programs of several workers that share objects, and what runs them: threads of this machine (`on_threads`), or simulated hosts
//! (`am-bench speedups`, which has these files, too).

pub(crate) mod equations;
pub(crate) mod water;
pub(crate) mod workers;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use am_api::Node;
use am_objects::{Builder, Call, CallError, Level, Settings, Space};

pub(crate) use workers::Failure;
use workers::{Cause, check, run, wait_for_all};

const LONG: Duration = Duration::from_secs(30);

/// What computes for a worker.
pub(crate) trait Processor {
    fn compute<R>(&self, what: impl FnOnce() -> R) -> impl Future<Output = R>;
}

/// The core of the calling thread.
pub(crate) struct Core;

impl Processor for Core {
    async fn compute<R>(&self, what: impl FnOnce() -> R) -> R {
        what()
    }
}

/// A problem that several workers solve with shared objects. One worker computes the same without objects.
pub(crate) trait Program: Sync {
    /// What the workers share.
    type Objects: 'static;
    type Solution: PartialEq + Send;

    /// Names of nodes and spaces begin with it.
    const NAME: &'static str;

    /// Name the types of the objects.
    fn types(builder: Builder<'_>) -> Builder<'_>;

    fn create(&self, space: &mut Space, workers: usize) -> Result<Self::Objects, CallError>;

    /// `None` while they are not here.
    fn open(&self, space: &Space, workers: usize) -> Result<Option<Self::Objects>, CallError>;

    /// Solve the worker's part with the others.
    fn work(
        &self,
        objects: &Self::Objects,
        number: usize,
        workers: usize,
        processor: &impl Processor,
    ) -> impl Future<Output = Result<Self::Solution, CallError>>;

    /// One thread, without objects.
    fn alone(&self) -> Self::Solution;

    /// For measurements: how long the steps of a worker's part take, where all other parts are there already.
    fn step_times(&self, number: usize, workers: usize, steps: usize) -> Vec<Duration>;

    /// For measurements: a write as the first worker makes it in this step.
    fn write(&self, objects: &Self::Objects, workers: usize, step: u64) -> Call<()>;

    /// The writes of all workers that have run here.
    fn written(objects: &Self::Objects) -> Result<u64, CallError>;
}

/// What a read finds once it finds something, and the write before it is done. Whatever polls this polls it again after each change of
/// the objects, as [`Space::block_on`] does. What the space has to send leaves before the caller computes: the orders of the other workers' writes,
/// if this process is the sequencer.
pub(crate) async fn find_after<R>(
    write: Call<()>,
    mut find: impl FnMut() -> Result<Option<R>, CallError>,
) -> Result<R, CallError> {
    let (mut write, mut is_done) = (pin!(write), false);
    let found = poll_fn(|context| {
        if !is_done && let Poll::Ready(done) = write.as_mut().poll(context) {
            done?;
            is_done = true;
        }
        match find()? {
            Some(found) if is_done => Poll::Ready(Ok::<_, CallError>(found)),
            _ => Poll::Pending,
        }
    })
    .await?;
    let mut has_left = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_left, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    Ok(found)
}

/// The result of a read of a copy that is here.
pub(crate) fn here<R: for<'a> am_objects::codec::Decode<'a>>(read: Call<R>) -> Result<R, CallError> {
    read.now().unwrap_or(Err(CallError::Unknown))
}

/// A worker that computes answers late. `Agreed`: if a process crashes, the program begins anew, so no write has to outlive a crash.
pub(crate) fn patient<P: Program>(builder: Builder<'_>) -> Builder<'_> {
    let settings = Settings { silence: LONG / 10, patience: LONG, slow: None, ..Settings::default() };
    P::types(builder).settings(settings).level(Level::Agreed)
}

/// Each worker is a thread with a node and a member of its own. Returns the longest time of a worker from when all were there, and what
/// each one found.
pub(crate) fn on_threads<P: Program>(
    program: &P,
    workers: usize,
    transport: &str,
) -> Result<(Duration, Vec<P::Solution>), Failure> {
    let results = run(workers, |number, cause| on_a_thread(program, number, workers, transport, cause))?;
    let time = results.iter().map(|(time, _)| *time).max().unwrap_or_default();
    Ok((time, results.into_iter().map(|(_, solution)| solution).collect()))
}

fn on_a_thread<P: Program>(
    program: &P,
    number: usize,
    workers: usize,
    transport: &str,
    cause: &Cause,
) -> Result<(Duration, P::Solution), Failure> {
    let node = Node::open(&format!("{}{workers}-{number}", P::NAME), transport)?;
    let builder = patient::<P>(Space::builder(&node));
    let mut space = match number {
        0 => builder.found(P::NAME)?,
        _ => builder.join(P::NAME, &[format!("{}{workers}-0", P::NAME)])?,
    };
    wait_for_all(&mut space, number, workers, cause)?;
    let objects = program.create(&mut space, workers)?;
    let began = Instant::now();
    let solution = space.block_on_for(program.work(&objects, number, workers, &Core), 4 * LONG);
    let time = began.elapsed();
    let late = || space.health().unwrap_or_else(|| "the other workers' parts have not arrived".into());
    let solution = solution.ok_or_else(late)??;
    space.leave(LONG)?;
    Ok((time, solution))
}

/// Solve it alone, and with 1 to this many workers. Print the table. Returns whether all have found the same.
pub(crate) fn compare<P: Program>(
    program: &P,
    most_workers: usize,
    transport: &str,
    title: &str,
) -> Result<bool, Failure> {
    check(transport, most_workers)?;
    let began = Instant::now();
    let alone = program.alone();
    let base = began.elapsed().as_secs_f64();
    println!("{title}\nworkers  seconds  speed-up  equal");
    println!("{:>7}  {base:7.3}  {:8.2}  {:>5}", "alone", 1.0, "-");
    let mut all_equal = true;
    for workers in 1..=most_workers {
        let (time, solutions) = on_threads(program, workers, transport)?;
        let (time, is_equal) = (time.as_secs_f64(), solutions.iter().all(|solution| *solution == alone));
        println!("{workers:>7}  {time:7.3}  {:8.2}  {:>5}", base / time, if is_equal { "yes" } else { "no" });
        all_equal &= is_equal;
    }
    Ok(all_equal)
}
