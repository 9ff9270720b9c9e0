//! Many senders and one receiver: the setting of a run, and its figures.
#![allow(unreachable_pub, reason = "a module of a test program: nothing outside of it can reach it")]

mod figures;
mod host;

use am_netdev_sim::check::turns::Turns;
use am_netdev_sim::{MS, Nanos, Net, NetOptions, NodeEvent, US};
use am_proto::Counters;
pub use figures::Figures;
use figures::Samples;
use host::Host;

/// The setting of a run. Node 0 receives. The others send to it as much as credit allows.
#[derive(Clone, Debug)]
pub struct Crowd {
    pub options: NetOptions,
    /// How many nodes send: nodes 1 to this one.
    pub senders: usize,
    /// The most credits of a flow, for all nodes. `None`: the default.
    pub window: Option<u16>,
    /// Bytes of words and payload of each message. `None`: as many as fit a frame.
    pub body: Option<usize>,
    /// Whether the receiver answers each request.
    pub answers: bool,
    /// Whether segments of bulk transfers are sent instead of requests. Each has a frame of its own.
    pub bulk: bool,
    /// Whether there is a slow receiver, too: the node behind the last sender takes one message in each turn.
    pub slow: bool,
    /// Whether a sender (1 is the first) sends at a time.
    pub sends: fn(usize, Nanos) -> bool,
}

/// The time in which figures are taken.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub from: Nanos,
    pub until: Nanos,
}

/// By then flows are open and the rates have settled.
pub const SETTLED: Span = Span { from: 20 * MS, until: 40 * MS };

/// 10 Gb/s, a microsecond of cable in each direction, and a switch with this much memory at a port.
pub fn crowd(senders: usize, buffer: usize) -> Crowd {
    let calm = NetOptions::calm(senders + 2);
    let options =
        NetOptions { rx: 1024, fill: 1024, frames: 4096, switch_buffer: buffer, switch_addresses: 8192, ..calm };
    Crowd { options, senders, window: None, body: None, answers: false, bulk: false, slow: false, sends: |_, _| true }
}

/// A run that has started.
pub struct Run {
    turns: Turns,
    crowd: Crowd,
    net: Net,
    hosts: Vec<Host>,
}

impl Crowd {
    /// Run from the start to the end of the span. Returns the figures of the span.
    pub fn run(self, span: Span) -> Figures {
        let mut run = self.start();
        run.run_until(span.from);
        run.figures_until(span.until)
    }

    pub fn start(self) -> Run {
        let mut net = Net::new(self.options.clone());
        let hosts: Vec<Host> = (0..self.options.nodes).map(|at| Host::new(&self, &mut net, at)).collect();
        let mut turns = Turns::of(&net);
        (0..hosts.len()).for_each(|at| turns.start(&mut net, at));
        Run { crowd: self, net, hosts, turns }
    }
}

impl Run {
    pub fn run_until(&mut self, until: Nanos) {
        self.figures_until(until);
    }

    /// Run until this time. Returns the figures from now on.
    pub fn figures_until(&mut self, until: Nanos) -> Figures {
        let from = self.net.now();
        let mut seen = Samples::new(self.crowd.senders);
        let before = self.loss_counts();
        while self.net.now() < until
            && let Some(happening) = self.net.step()
        {
            let now = self.net.now();
            match happening {
                NodeEvent::Alarm(at) if self.turns.begin(&self.net, at) => {
                    let due = self.hosts[at].turn(&self.crowd, &mut self.net, &mut seen);
                    self.turns.schedule(&mut self.net, at, due);
                }
                NodeEvent::Wake(at) => self.turns.schedule(&mut self.net, at, now),
                _ => (),
            }
        }
        let (after, rate) = (self.loss_counts(), self.crowd.options.rate as f64);
        let repairs = [0, 1, 2].map(|at| after[at] - before[at]);
        Figures::new(seen, rate, (self.net.now() - from) as f64 / 1e9, repairs)
    }

    /// Frames that the switch dropped, messages that were sent again, and how many of these were not lost.
    fn loss_counts(&self) -> [u64; 3] {
        let sum = |of: fn(&Counters) -> u64| self.hosts.iter().map(|host| of(host.engine.core().counters())).sum();
        [self.net.switch().count.full, sum(|all| all.retransmitted), sum(|all| all.spurious_retransmits)]
    }

    /// The most credits that one of the first senders has from the receiver.
    pub fn most_granted(&self, senders: usize) -> usize {
        self.hosts[0].granted().take(senders).max().unwrap_or_default()
    }
}

/// The time of a turn.
pub const TURN_TIME: Nanos = 2 * US;
