//! What the nodes are to do, and how they are set up.

use std::time::Duration;

use am_api::{Builder, Framing, Node};
use am_netdev_sim::{MS, Nanos, NetOptions, US};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// The same for all nodes of a run. Probabilities are per burst, but `hold`'s.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) seed: u64,
    /// Requests and transfers that each run of a node begins, at most.
    pub(crate) requests: u32,
    /// Connections that a node keeps open.
    pub(crate) flows: usize,
    /// The longest pause between two bursts.
    pub(crate) pause: Nanos,
    /// How long tokens, messages and prepared requests are kept, where they are.
    pub(crate) keep: Nanos,
    /// A message is kept beyond its handler.
    pub(crate) hold: f64,
    /// A request is prepared, and committed later.
    pub(crate) prepare: f64,
    /// A request or a reply is longer than a frame, if there is room for it.
    pub(crate) long: f64,
    /// The longest payload that a node accepts.
    pub(crate) max_message: usize,
    /// Something is put.
    pub(crate) put: f64,
    /// Something is got.
    pub(crate) get: f64,
    /// A transfer is cancelled when it has been begun, or later.
    pub(crate) cancel: f64,
    /// A connection is closed, asked for or accepted.
    pub(crate) close: f64,
    /// The endpoint is closed, and another opened under its name.
    pub(crate) reopen: f64,
    pub(crate) patience: Nanos,
    /// How often quiet connections are looked at.
    pub(crate) beacon: Nanos,
    window: u16,
    receive_frames: usize,
    send_frames: usize,
    framing: Option<Framing>,
}

impl Work {
    pub(crate) fn from_seed(seed: u64) -> Work {
        let mut random = SmallRng::seed_from_u64(seed ^ 0x61_70_69);
        let mut maybe = |most: f64| if random.random_bool(0.5) { most * random.random::<f64>() } else { 0.0 };
        let (hold, prepare) = (maybe(0.5), maybe(0.5));
        let (put, get) = (maybe(0.7), maybe(0.7));
        let (close, reopen, cancel) = (maybe(0.2), maybe(0.05), maybe(0.3));
        let long = maybe(0.7);
        let longest = if random.random_bool(0.5) { 60_000 } else { 120_000 };
        let most_frames = if random.random_bool(0.5) { 12 } else { 128 };
        // Only 12 bits of its number tell a bare frame from one of an earlier run.
        let framings = [Framing::Bare, Framing::Split, Framing::Plain];
        let framings = &framings[usize::from(!NetOptions::from_seed(seed).deaths.is_empty())..];
        Work {
            seed,
            requests: random.random_range(5..80),
            flows: random.random_range(1..4),
            pause: random.random_range(10 * US..2 * MS),
            keep: random.random_range(US..5 * MS),
            hold,
            prepare,
            long,
            max_message: random.random_range(2000..longest),
            put,
            get,
            cancel,
            close,
            reopen,
            patience: random.random_range(20..150) * MS,
            beacon: random.random_range(20..200) * MS,
            window: random.random_range(1..64),
            receive_frames: random.random_range(4..64),
            send_frames: random.random_range(3..most_frames),
            framing: framings.get(random.random_range(0..6)).copied(),
        }
    }

    /// A node of this name, but for its clock.
    pub(crate) fn builder(&self, name: &str) -> Builder {
        let builder = Node::builder(name)
            .window(self.window)
            .patience(Duration::from_nanos(self.patience))
            .beacon(Duration::from_nanos(self.beacon))
            .keepalive(Duration::from_nanos(4 * self.beacon))
            .receive_frames(self.receive_frames)
            .send_frames(self.send_frames)
            .max_message(self.max_message)
            .message_memory(0);
        match self.framing {
            Some(framing) => builder.framing(framing),
            None => builder,
        }
    }
}
