//! The two sides, each on a thread of its own. The near side says when the far side does what, so that neither disturbs
//! what the other times.

use std::hint::spin_loop;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::time::{Duration, Instant};

use super::Cache;
use super::caches::{Evictor, clock_cost, touch};
use am_measure::drivers::Vertex;
use am_measure::{Driver, Error, SpinWait, Watch};

/// Messages of each kind in a round. Emptying the caches takes milliseconds.
const WARM: usize = 400;
const COLD: usize = 20;
const ROUND_TRIPS: usize = 1000;
/// Those before them that are not counted.
const WARM_UP: usize = 100;

/// How long a frame waits before it is read: longer than any wire of this machine takes.
const WAITS: Duration = Duration::from_micros(20);
/// The limit of every wait.
const LIMIT: Duration = Duration::from_secs(10);
/// The limit until both sides are open. A NIC may take its link down for seconds.
const OPENING: Duration = Duration::from_secs(20);

/// What the far side does.
mod command {
    /// Nothing. It does not look at its device either.
    pub(super) const REST: u8 = 0;
    /// Read the message that waits, once, with warm or cold caches; then rest.
    pub(super) const TAKE_WARM: u8 = 1;
    pub(super) const TAKE_COLD: u8 = 2;
    /// Poll, so that the near side gets its acknowledgements.
    pub(super) const POLL: u8 = 3;
    /// Send back what arrives.
    pub(super) const ECHO: u8 = 4;
}

/// What was timed of messages of one size, in nanoseconds, without the clock's cost: by [`Cache`].
#[derive(Debug, Default)]
pub(super) struct Sampled {
    pub(super) send: [Vec<u64>; 2],
    pub(super) read: [Vec<u64>; 2],
    pub(super) touch: [Vec<u64>; 2],
    pub(super) round_trips: Vec<u64>,
    /// Messages that the first call of `read` did not find.
    pub(super) late: u64,
}

/// What both sides share.
#[derive(Default)]
pub(super) struct Shared {
    /// Says that the other side has ended, too.
    watch: Watch,
    command: AtomicU8,
    /// Of the message taken last, in nanoseconds.
    read: AtomicU64,
    touched: AtomicU64,
    late: AtomicU64,
    /// Sides whose edge leads to the other.
    connected: AtomicU8,
}

impl Shared {
    pub(super) fn new(watch: &Watch) -> Shared {
        Shared { watch: watch.of_another_peer(), ..Shared::default() }
    }

    /// Connect this side, and go on polling until both are connected.
    pub(super) fn meet(&self, vertex: &mut Vertex) -> Result<(), Error> {
        let mut wait = self.wait("connecting", OPENING);
        vertex.connect(|| wait.idle().map(drop))?;
        self.connected.fetch_add(1, SeqCst);
        while self.connected.load(SeqCst) < 2 {
            vertex.dp.poll();
            wait.idle()?;
        }
        Ok(())
    }

    /// Let the other side end.
    pub(super) fn end(&self) {
        self.watch.peer_is_gone();
    }

    fn wait(&self, doing: &'static str, limit: Duration) -> SpinWait<'_> {
        SpinWait::new(&self.watch, Driver::Dp, doing, limit)
    }
}

/// Let this time pass.
fn pass(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        spin_loop();
    }
}

/// Read the next message, and touch it. Returns its length and how many calls found nothing.
#[inline]
fn take(vertex: &mut Vertex, wait: &mut SpinWait<'_>) -> Result<(usize, Instant, u64), Error> {
    let mut late = 0;
    loop {
        match vertex.dp.read(&vertex.point).map_err(|why| Error::Lost(why.to_string()))? {
            Some(place) => {
                let read = Instant::now();
                if let Some(message) = vertex.dp.bytes(&vertex.point, &place) {
                    touch(message);
                }
                return Ok((place.len(), read, late));
            }
            None => late += 1,
        }
        wait.idle()?;
    }
}

/// The far side, until the near side ends.
pub(super) fn serve(vertex: &mut Vertex, shared: &Shared, evictor: &Evictor) -> Result<(), Error> {
    let message = vec![3; super::MAX_SIZE];
    let mut wait = shared.wait("waiting for what to do", Duration::MAX);
    loop {
        match shared.command.load(SeqCst) {
            command::TAKE_WARM => take_once(vertex, shared, None)?,
            command::TAKE_COLD => take_once(vertex, shared, Some(evictor))?,
            command::POLL => _ = vertex.dp.poll(),
            command::ECHO => echo(vertex, shared, &message)?,
            _ => {}
        }
        wait.idle()?;
    }
}

fn take_once(vertex: &mut Vertex, shared: &Shared, evictor: Option<&Evictor>) -> Result<(), Error> {
    pass(WAITS);
    if let Some(evictor) = evictor {
        evictor.evict();
    }
    let mut wait = shared.wait("reading a message", LIMIT);
    let start = Instant::now();
    let (_, read, late) = take(vertex, &mut wait)?;
    let touched = Instant::now();
    vertex.dp.fsync(&vertex.point, 1);
    shared.read.store((read - start).as_nanos() as u64, SeqCst);
    shared.touched.store((touched - read).as_nanos() as u64, SeqCst);
    shared.late.store(late, SeqCst);
    shared.command.store(command::REST, SeqCst);
    Ok(())
}

/// Send back as many bytes as arrive.
fn echo(vertex: &mut Vertex, shared: &Shared, message: &[u8]) -> Result<(), Error> {
    let mut wait = shared.wait("answering", LIMIT);
    while shared.command.load(SeqCst) == command::ECHO {
        let Some(place) = vertex.dp.read(&vertex.point).map_err(|why| Error::Lost(why.to_string()))? else {
            wait.idle()?;
            continue;
        };
        if let Some(message) = vertex.dp.bytes(&vertex.point, &place) {
            touch(message);
        }
        wait.active()?;
        vertex.dp.fsync(&vertex.point, 1);
        while !vertex.write(&message[..place.len()])? {
            vertex.dp.poll();
            wait.idle()?;
        }
    }
    Ok(())
}

/// The near side, which times.
pub(super) struct Near<'a> {
    pub(super) vertex: &'a mut Vertex,
    pub(super) shared: &'a Shared,
    pub(super) evictor: &'a Evictor,
}

impl Near<'_> {
    /// Messages of one size.
    pub(super) fn sample(&mut self, size: usize) -> Result<Sampled, Error> {
        let (mut sampled, message, clock) = (Sampled::default(), vec![5; size], clock_cost());
        for _ in 0..WARM_UP {
            self.one(&message, Cache::Warm, clock, &mut Sampled::default())?;
        }
        for (cache, count) in [(Cache::Warm, WARM), (Cache::Cold, COLD)] {
            for _ in 0..count {
                self.one(&message, cache, clock, &mut sampled)?;
            }
        }
        self.round_trips(&message, &mut sampled)?;
        Ok(sampled)
    }

    /// One message: written, left to wait, read.
    fn one(&mut self, message: &[u8], cache: Cache, clock: u64, sampled: &mut Sampled) -> Result<(), Error> {
        if cache == Cache::Cold {
            self.evictor.evict();
        }
        let start = Instant::now();
        let is_written = self.vertex.write(message)?;
        let send = start.elapsed().as_nanos() as u64;
        if !is_written {
            return Err(Error::Lost("the receiver has no room for a single message".to_owned()));
        }
        let take = if cache == Cache::Cold { command::TAKE_COLD } else { command::TAKE_WARM };
        self.shared.command.store(take, SeqCst);
        let mut wait = self.shared.wait("waiting until a message is read", LIMIT);
        while self.shared.command.load(SeqCst) != command::REST {
            wait.idle()?;
        }
        let [read, touched, late] =
            [&self.shared.read, &self.shared.touched, &self.shared.late].map(|of| of.load(SeqCst));
        self.settle()?;
        let without = |ns: u64| ns.saturating_sub(clock);
        sampled.send[cache as usize].push(without(send));
        sampled.read[cache as usize].push(without(read));
        sampled.touch[cache as usize].push(without(touched));
        sampled.late += u64::from(late > 0);
        Ok(())
    }

    /// Both sides poll until the message is accepted. Nothing is left to do for the next one then.
    fn settle(&mut self) -> Result<(), Error> {
        self.shared.command.store(command::POLL, SeqCst);
        let mut wait = self.shared.wait("waiting until a message is accepted", LIMIT);
        while !self.vertex.dp.is_accepted(&self.vertex.point) {
            self.vertex.dp.poll();
            wait.idle()?;
        }
        self.shared.command.store(command::REST, SeqCst);
        // The far side may be in its last poll.
        pass(WAITS);
        Ok(())
    }

    /// The clock is read once an exchange: the end of one is the start of the next.
    fn round_trips(&mut self, message: &[u8], sampled: &mut Sampled) -> Result<(), Error> {
        self.shared.command.store(command::ECHO, SeqCst);
        let mut start = Instant::now();
        for nth in 0..WARM_UP + ROUND_TRIPS {
            let mut wait = self.shared.wait("waiting for an answer", LIMIT);
            while !self.vertex.write(message)? {
                self.vertex.dp.poll();
                wait.idle()?;
            }
            take(self.vertex, &mut wait)?;
            self.vertex.dp.fsync(&self.vertex.point, 1);
            let now = Instant::now();
            if nth >= WARM_UP {
                sampled.round_trips.push((now - start).as_nanos() as u64);
            }
            start = now;
        }
        self.settle()
    }
}
