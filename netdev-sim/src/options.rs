//! Every setting and every fault of a network.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::clock::{MS, Nanos, US};
use crate::fault::Driver;

/// A network and its faults. A probability is per frame, and holds until [`faults_until`](Self::faults_until).
#[derive(Clone, Debug, PartialEq)]
pub struct NetOptions {
    /// The source of all random numbers.
    pub seed: u64,
    /// Nodes, each with a NIC and a link to the switch.
    pub nodes: usize,
    /// When the random faults end. Stalls, deaths and partitions have their own times.
    pub faults_until: Nanos,

    /// Frames in the pool of each NIC.
    pub frames: usize,
    /// The longest frame, from the destination address on.
    pub max_frame: usize,
    /// Buffers that the fill ring holds.
    pub fill: usize,
    /// Frames that the RX ring holds.
    pub rx: usize,
    /// Frames that the TX ring holds.
    pub tx: usize,
    /// Frames that the completion ring holds: sent, and not yet taken back.
    pub completion: usize,
    /// The longest time between the read of a frame and its completion.
    pub completion_delay: Nanos,
    /// The probability that a doorbell, or the interrupt of an arriving frame, is lost.
    pub lost_wakeup: f64,
    /// While the node has no room, the NIC bounces requests, as the XDP program does. Otherwise the host rejects them.
    pub bounces: bool,

    /// The wrong form in which the NICs' drivers hand over some frames.
    pub driver: Driver,
    /// The probability of the wrong form. All other frames are unchanged.
    pub misreports: f64,

    /// Whether a NIC keeps a checksum of each frame that it owns, to detect that the node writes the frame.
    pub detect_writes: bool,

    /// A mutant: a frame is free as soon as the NIC begins to read it, before its completion.
    #[doc(hidden)]
    pub frees_early: bool,
    /// A mutant: the switch stores every frame, whether it has room or not.
    #[doc(hidden)]
    pub overfills: bool,

    /// Bits per second of each link.
    pub rate: u64,
    /// The time from one end of a link to the other.
    pub delay: Nanos,
    /// The additional delay of the first node's link, the second's, and so on. Links beyond the end of the list have
    /// none.
    pub extra_delay: Vec<Nanos>,
    /// The probability that a frame is lost.
    pub loss: f64,
    /// The probability that a frame arrives twice.
    pub duplicate: f64,
    /// The probability that a frame is late, so that others overtake it.
    pub reorder: f64,
    /// The most that such a frame is late.
    pub reorder_by: Nanos,
    /// A queue like Linux's netem for the frames that the first node sends, the second, and so on. Nodes beyond the end
    /// of the list have none.
    pub netem: Vec<Netem>,
    /// The probability that a bit of a frame flips.
    pub corrupt: f64,
    /// Whether Ethernet's check sequence detects the damage, so that the frame is dropped.
    pub check: bool,

    /// Bits per second between the first half of the nodes and the second, if the switch is two that are joined by one link
    /// (each direction has this rate, and the buffer of a port). `None`: one switch, which forwards at any rate.
    pub trunk: Option<u64>,
    /// The most bytes that wait at a port of the switch.
    pub switch_buffer: usize,
    /// The most addresses in the switch's table.
    pub switch_addresses: usize,

    /// Times when some nodes do not reach the others.
    pub partitions: Vec<Partition>,
    /// Times when a node does not run.
    pub stalls: Vec<Stall>,
    /// Deaths of nodes.
    pub deaths: Vec<Death>,
}

/// `netem delay D J reorder R` between a node and the switch. Frames with different delays overtake each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Netem {
    /// The mean time that a frame waits.
    pub delay: Nanos,
    /// The most that the wait of a frame differs from the mean.
    pub jitter: Nanos,
    /// The probability that a frame does not wait, and so overtakes all that do.
    pub reorder: f64,
}

/// In `from..until` no frame passes between the nodes of `side` (a bit for each) and the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// When it starts.
    pub from: Nanos,
    /// When it ends.
    pub until: Nanos,
    /// The nodes of one side, a bit for each.
    pub side: u64,
}

impl Partition {
    /// Whether the partition stops frames from one node to the other.
    pub(crate) fn separates(&self, now: Nanos, from: usize, to: usize) -> bool {
        (self.from..self.until).contains(&now) && (self.side >> from ^ self.side >> to) & 1 == 1
    }
}

/// A node does not run for a while: because of a debugger, another process, or a page fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The node.
    pub node: usize,
    /// When it stops.
    pub from: Nanos,
    /// When it continues.
    pub until: Nanos,
}

/// A node dies without closing its flows. It may be started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// The node.
    pub node: usize,
    /// When it dies.
    pub at: Nanos,
    /// When it is started again, as a new incarnation; if it is.
    pub restart: Option<Nanos>,
}

impl NetOptions {
    /// When the last fault is over.
    pub fn last_fault(&self) -> Nanos {
        let partitions = self.partitions.iter().map(|partition| partition.until);
        let stalls = self.stalls.iter().map(|stall| stall.until);
        let deaths = self.deaths.iter().map(|death| death.restart.unwrap_or(death.at));
        partitions.chain(stalls).chain(deaths).fold(self.faults_until, Nanos::max)
    }

    /// A network of this many nodes, without faults.
    pub fn calm(nodes: usize) -> NetOptions {
        NetOptions {
            seed: 0,
            nodes,
            faults_until: 0,
            frames: 512,
            max_frame: 1514,
            fill: 128,
            rx: 128,
            tx: 64,
            completion: 64,
            completion_delay: 0,
            lost_wakeup: 0.0,
            bounces: false,
            driver: Driver::Honest,
            misreports: 0.0,
            detect_writes: true,
            frees_early: false,
            overfills: false,
            rate: 10_000_000_000,
            delay: US,
            extra_delay: vec![],
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_by: 100 * US,
            netem: vec![],
            corrupt: 0.0,
            check: true,
            trunk: None,
            switch_buffer: 128 * 1024,
            switch_addresses: 1024,
            partitions: vec![],
            stalls: vec![],
            deaths: vec![],
        }
    }

    /// Mixed faults on 2 to 8 nodes, the same for the same seed. Each fault is in some runs only, so no fault always
    /// hides the effect of another.
    pub fn from_seed(seed: u64) -> NetOptions {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut options = NetOptions::calm(random.random_range(2..=8));
        options.seed = seed;
        options.faults_until = random.random_range(5..40) * MS;
        options.fill = 1 << random.random_range(3..8);
        options.rx = 1 << random.random_range(3..8);
        options.tx = 1 << random.random_range(2..7);
        options.completion = 1 << random.random_range(2..7);
        options.completion_delay = draw_in_half(&mut random, |random| random.random_range(US..200 * US));
        options.lost_wakeup = draw_probability(&mut random, 0.1);
        options.draw_link(&mut random);
        options.draw_outages(&mut random);
        options.bounces = random.random_bool(0.5);
        options.misreports = draw_probability(&mut random, 0.2);
        options.driver = Driver::draw(&mut random);
        // One run in four has netem, with delays at some of the nodes.
        for _ in 0..if random.random_bool(0.25) { options.nodes } else { 0 } {
            let delay = draw_in_half(&mut random, |random| random.random_range(10 * US..2 * MS));
            let (jitter, reorder) = (random.random_range(0..=delay), draw_probability(&mut random, 0.3));
            options.netem.push(Netem { delay, jitter, reorder });
        }
        options
    }

    fn draw_link(&mut self, random: &mut SmallRng) {
        self.rate = [100_000_000, 1_000_000_000, 10_000_000_000, 100_000_000_000][random.random_range(0..4)];
        self.delay = random.random_range(100..50 * US);
        self.loss = draw_probability(random, 0.2);
        self.duplicate = draw_probability(random, 0.2);
        self.reorder = draw_probability(random, 0.3);
        self.reorder_by = random.random_range(US..2 * MS);
        self.corrupt = draw_probability(random, 0.1);
        self.switch_buffer = random.random_range(4..64) * 1024;
        self.switch_addresses = random.random_range(4..64);
    }

    fn draw_outages(&mut self, random: &mut SmallRng) {
        let end = self.faults_until;
        for _ in 0..draw_in_half(random, |random| random.random_range(1..3)) {
            let (from, until) = draw_span(random, end);
            self.partitions.push(Partition { from, until, side: random.random_range(1..(1 << self.nodes) - 1) });
        }
        for _ in 0..draw_in_half(random, |random| random.random_range(1..4)) {
            let (from, until) = draw_span(random, end);
            self.stalls.push(Stall { node: random.random_range(0..self.nodes), from, until });
        }
        for _ in 0..draw_in_half(random, |random| random.random_range(1..4)) {
            let (at, back) = draw_span(random, end);
            let restart = random.random_bool(0.7).then_some(back);
            self.deaths.push(Death { node: random.random_range(0..self.nodes), at, restart });
        }
    }
}

/// The drawn number in half of all runs, and 0 in the others.
fn draw_in_half(random: &mut SmallRng, draw: impl FnOnce(&mut SmallRng) -> u64) -> u64 {
    if random.random_bool(0.5) { draw(random) } else { 0 }
}

/// A probability up to `most` in half of all runs, and 0 in the others. Small values are more likely than large ones.
fn draw_probability(random: &mut SmallRng, most: f64) -> f64 {
    let some = random.random::<f64>();
    if random.random_bool(0.5) { most * some * some * some } else { 0.0 }
}

fn draw_span(random: &mut SmallRng, end: Nanos) -> (Nanos, Nanos) {
    let from = random.random_range(0..end);
    (from, random.random_range(from..=end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_network() {
        assert_eq!(NetOptions::from_seed(5), NetOptions::from_seed(5));
        assert_ne!(NetOptions::from_seed(5), NetOptions::from_seed(6));
    }

    #[test]
    fn a_partition_has_two_sides() {
        let partition = Partition { from: 10, until: 20, side: 0b011 };
        assert!(partition.separates(10, 0, 2) && partition.separates(19, 2, 1));
        assert!(!partition.separates(10, 0, 1) && !partition.separates(20, 0, 2) && !partition.separates(9, 0, 2));
    }

    #[test]
    fn all_that_can_go_wrong_does_in_some_run() {
        let all: Vec<NetOptions> = (0..200).map(NetOptions::from_seed).collect();
        let some = |what: fn(&NetOptions) -> bool| assert!(all.iter().any(what) && !all.iter().all(what));
        some(|o| o.loss > 0.01);
        some(|o| o.duplicate > 0.01);
        some(|o| o.reorder > 0.01);
        some(|o| o.corrupt > 0.01);
        some(|o| o.lost_wakeup > 0.01);
        some(|o| o.bounces);
        some(|o| o.misreports > 0.01);
        for driver in [Driver::Cuts(1024), Driver::KeepsFirst(1024), Driver::KeepsLast(1024), Driver::Untags] {
            assert!(all.iter().any(|o| o.driver == driver), "{driver:?}");
        }
        some(|o| o.netem.iter().any(|netem| netem.jitter > 0 && netem.reorder > 0.01));
        some(|o| !o.partitions.is_empty());
        some(|o| !o.stalls.is_empty());
        some(|o| o.deaths.iter().any(|death| death.restart.is_some()));
        some(|o| o.deaths.iter().any(|death| death.restart.is_none()));
        for nodes in 2..=8 {
            assert!(all.iter().any(|o| o.nodes == nodes), "{nodes} nodes");
        }
    }
}
