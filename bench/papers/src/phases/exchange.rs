//! The two sides, each on a thread of its own. The near side says when the far side does what, so that neither disturbs
//! what the other times.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::SeqCst};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use am_measure::drivers::dp::Vertex;
use am_measure::error::Error;
use am_measure::watch::Watch;

use super::Cache;
use super::caches::{Evictor, clock_cost, touch};

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
/// A spinning loop looks at the clock once in so many turns, and may leave the core to the other side.
const TURNS_PER_LOOK: u32 = 4096;

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
    /// End. Either side says so.
    pub(super) const END: u8 = 5;
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
    command: AtomicU8,
    /// Of the message taken last, in nanoseconds.
    read: AtomicU64,
    touched: AtomicU64,
    late: AtomicU64,
    /// Sides whose edge leads to the other.
    connected: AtomicU8,
}

impl Shared {
    /// Connect this side, and go on polling until both are connected.
    pub(super) fn meet(&self, vertex: &mut Vertex, watch: &Watch) -> Result<(), Error> {
        let mut patience = Patience::new(watch, self, OPENING);
        vertex.connect(|| patience.turn())?;
        self.connected.fetch_add(1, SeqCst);
        while self.connected.load(SeqCst) < 2 {
            vertex.dp.poll();
            patience.turn()?;
        }
        Ok(())
    }

    /// Let the other side end.
    pub(super) fn end(&self) {
        self.command.store(command::END, SeqCst);
    }

    fn is_over(&self) -> bool {
        self.command.load(SeqCst) == command::END
    }
}

/// A loop that waits, and does not wait for ever.
struct Patience<'a> {
    watch: &'a Watch,
    shared: &'a Shared,
    begin: Instant,
    limit: Duration,
    turns: u32,
}

impl<'a> Patience<'a> {
    fn new(watch: &'a Watch, shared: &'a Shared, limit: Duration) -> Self {
        Patience { watch, shared, begin: Instant::now(), limit, turns: 0 }
    }

    #[inline]
    fn turn(&mut self) -> Result<(), Error> {
        spin_loop();
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(TURNS_PER_LOOK) { self.look() } else { Ok(()) }
    }

    #[cold]
    fn look(&self) -> Result<(), Error> {
        self.watch.check()?;
        if self.shared.is_over() {
            return Err(Error::PeerGone("its thread has ended".to_owned()));
        }
        if self.begin.elapsed() > self.limit {
            return Err(Error::Lost(format!("nothing arrived within {} s", self.limit.as_secs())));
        }
        yield_now();
        Ok(())
    }
}

/// Read the next message, and touch it. Returns its length and how many calls found nothing.
#[inline]
fn take(vertex: &mut Vertex, patience: &mut Patience<'_>) -> Result<(usize, Instant, u64), Error> {
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
        patience.turn()?;
    }
}

/// The far side, until the near side ends.
pub(super) fn serve(vertex: &mut Vertex, shared: &Shared, evictor: &Evictor, watch: &Watch) -> Result<(), Error> {
    let message = vec![3; super::MAX_SIZE];
    let mut patience = Patience::new(watch, shared, Duration::MAX);
    loop {
        match shared.command.load(SeqCst) {
            command::TAKE_WARM => take_once(vertex, shared, None, watch)?,
            command::TAKE_COLD => take_once(vertex, shared, Some(evictor), watch)?,
            command::POLL => _ = vertex.dp.poll(),
            command::ECHO => echo(vertex, shared, &message, watch)?,
            command::END => return Ok(()),
            _ => patience.turn()?,
        }
    }
}

fn take_once(vertex: &mut Vertex, shared: &Shared, evictor: Option<&Evictor>, watch: &Watch) -> Result<(), Error> {
    let sent = Instant::now();
    while sent.elapsed() < WAITS {
        spin_loop();
    }
    if let Some(evictor) = evictor {
        evictor.evict();
    }
    let mut patience = Patience::new(watch, shared, LIMIT);
    let start = Instant::now();
    let (_, read, late) = take(vertex, &mut patience)?;
    let touched = Instant::now();
    vertex.dp.fsync(&vertex.point, 1);
    shared.read.store((read - start).as_nanos() as u64, SeqCst);
    shared.touched.store((touched - read).as_nanos() as u64, SeqCst);
    shared.late.store(late, SeqCst);
    // The near side may have ended meanwhile, and then stays so.
    let taking = if evictor.is_some() { command::TAKE_COLD } else { command::TAKE_WARM };
    _ = shared.command.compare_exchange(taking, command::REST, SeqCst, SeqCst);
    Ok(())
}

/// Send back as many bytes as arrive.
fn echo(vertex: &mut Vertex, shared: &Shared, message: &[u8], watch: &Watch) -> Result<(), Error> {
    let mut patience = Patience::new(watch, shared, LIMIT);
    while shared.command.load(SeqCst) == command::ECHO {
        let Some(place) = vertex.dp.read(&vertex.point).map_err(|why| Error::Lost(why.to_string()))? else {
            patience.turn()?;
            continue;
        };
        if let Some(message) = vertex.dp.bytes(&vertex.point, &place) {
            touch(message);
        }
        vertex.dp.fsync(&vertex.point, 1);
        while !vertex.write(&message[..place.len()])? {
            vertex.dp.poll();
            patience.turn()?;
        }
    }
    Ok(())
}

/// The near side, which times.
pub(super) struct Near<'a> {
    pub(super) vertex: &'a mut Vertex,
    pub(super) shared: &'a Shared,
    pub(super) evictor: &'a Evictor,
    pub(super) watch: &'a Watch,
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
        let mut patience = Patience::new(self.watch, self.shared, LIMIT);
        while self.shared.command.load(SeqCst) != command::REST {
            patience.turn()?;
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
        let mut patience = Patience::new(self.watch, self.shared, LIMIT);
        while !self.vertex.dp.is_accepted(&self.vertex.point) {
            self.vertex.dp.poll();
            patience.turn()?;
        }
        self.shared.command.store(command::REST, SeqCst);
        // The far side may be in its last poll.
        let rested = Instant::now();
        while rested.elapsed() < WAITS {
            spin_loop();
        }
        Ok(())
    }

    /// The clock is read once an exchange: the end of one is the start of the next.
    fn round_trips(&mut self, message: &[u8], sampled: &mut Sampled) -> Result<(), Error> {
        self.shared.command.store(command::ECHO, SeqCst);
        let mut start = Instant::now();
        for nth in 0..WARM_UP + ROUND_TRIPS {
            let mut patience = Patience::new(self.watch, self.shared, LIMIT);
            while !self.vertex.write(message)? {
                self.vertex.dp.poll();
                patience.turn()?;
            }
            take(self.vertex, &mut patience)?;
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
