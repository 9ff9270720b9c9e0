//! The work of the nodes, and their configuration.

use am_netdev_sim::{MS, Nanos, NetOptions, US};
use am_proto::FramingChoice;
use am_wire::Framing;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// The work of every node of a run.
#[derive(Clone, Debug, Default)]
pub struct Work {
    pub seed: u64,
    /// The most requests that each run of a node sends.
    pub requests: u32,
    /// Flows that a node keeps open.
    pub flows: usize,
    /// The longest pause between two bursts of requests.
    pub pause: Nanos,
    /// The longest time that a token is kept.
    pub max_hold: Nanos,
    /// The probability that a message outlives its handler, by up to `keep`.
    pub hold: f64,
    /// The probability that a request is prepared, and committed up to `keep` later.
    pub prepare: f64,
    /// The probability that a burst of requests begins with the close of a flow.
    pub close: f64,
    /// The probability that a burst begins with a new endpoint in place of the old one.
    pub reopen: f64,
    /// How many messages are extracted at once, and how long the application is busy afterwards.
    pub extract: usize,
    pub busy: Nanos,
    pub receive_frames: usize,
    pub send_frames: usize,
    pub window: u16,
    pub patience: Nanos,
    /// The time between two beacons. A quiet flow is probed about as often.
    pub beacon: Nanos,
    /// The longest retransmission time-out.
    pub max_timeout: Nanos,
    pub framing: FramingChoice,
    /// Whether nodes that do not run send heartbeats.
    pub heartbeats: bool,
    /// The first sequence number, if the numbers are to wrap soon.
    pub first_number: Option<u32>,
}

impl Work {
    pub fn from_seed(seed: u64) -> Work {
        let mut random = SmallRng::seed_from_u64(seed ^ 0x70_77_6f_72_6b);
        let framings = [Framing::Bare, Framing::Split, Framing::Plain].map(FramingChoice::Fixed);
        let mut work = Work {
            seed,
            requests: random.random_range(1..60),
            flows: random.random_range(1..4),
            pause: random.random_range(US..2 * MS),
            max_hold: random.random_range(US..5 * MS),
            receive_frames: random.random_range(2..64),
            send_frames: random.random_range(8..128),
            window: random.random_range(1..64),
            patience: random.random_range(20..200) * MS,
            extract: usize::MAX,
            framing: framings.get(random.random_range(0..6)).copied().unwrap_or_default(),
            ..Work::default()
        };
        work.max_timeout = work.patience / random.random_range(4..12);
        // Too few frames for all credits, so messages are rejected.
        if random.random_bool(0.3) {
            work.receive_frames = random.random_range(4..16);
        }
        if random.random_bool(0.5) {
            work.extract = random.random_range(1..8);
            work.busy = random.random_range(0..500 * US);
        }
        // Only random first numbers tell bare frames from those of an earlier run.
        let bare = work.framing == FramingChoice::Fixed(Framing::Bare);
        if random.random_bool(0.5) && (!bare || NetOptions::from_seed(seed).deaths.is_empty()) {
            work.first_number = Some(u32::MAX - random.random_range(0..40));
        }
        work.draw_habits(&mut random);
        work
    }

    /// Each is in half of all runs, so that no habit always hides the effect of another.
    fn draw_habits(&mut self, random: &mut SmallRng) {
        let mut maybe = |most: f64| if random.random_bool(0.5) { most * random.random::<f64>() } else { 0.0 };
        (self.hold, self.prepare) = (maybe(0.5), maybe(0.5));
        (self.close, self.reopen) = (maybe(0.2), maybe(0.05));
        self.beacon = random.random_range(20..150) * MS;
    }
}
