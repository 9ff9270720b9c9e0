//! A node that has just started.

use std::collections::VecDeque;

use am_wire::Buffer;

use crate::WINDOW;
use crate::config::{Config, Placement};
use crate::control_queue::ControlQueue;
use crate::counters::Counters;
use crate::credits::{CreditBudget, room_for_requests};
use crate::endpoint::Endpoints;
use crate::fair_share::FairShare;
use crate::flow::PerClass;
use crate::flows::Flows;
use crate::gaps::Gaps;
use crate::mutants::{self, Mutant};
use crate::node::{Core, Deferred, Discovery, MAX_PENDING_REJECTS, Outputs, Random, Receiving, Sending, Times};
use crate::senders::Senders;
use crate::slots::{LEAST_SLOTS, Slots};
use crate::time::{Time, TimerKind};

/// The first flow id that a run gives out: one higher for each 65 µs that it starts later than the run before. So a
/// late frame for the earlier run meets no flow of this one, unless the earlier run opened flows faster than that for
/// all its life.
fn first_flow(config: &Config) -> u64 {
    config.node.0.wrapping_add(config.incarnation.0 >> 16)
}

impl<B: Buffer> Core<B> {
    /// A node that has just started. Its first output is a beacon.
    pub fn new(mut config: Config, now: Time) -> Self {
        config.window = config.window.clamp(1, WINDOW as u16);
        config.send_frames = config.send_frames.max(LEAST_SLOTS);
        let (start, frames) = (first_flow(&config), config.send_frames);
        Core {
            flows: Flows::new(if mutants::is_active(Mutant::OtherIncarnation) { 0 } else { start }),
            slots: Slots::new(frames),
            endpoints: Endpoints::new(config.receive_frames, usize::from(config.window)),
            sending: Sending {
                acks_due: VecDeque::with_capacity(64),
                pending_rejects: VecDeque::with_capacity(MAX_PENDING_REJECTS),
                deferred_control: VecDeque::new(),
                control: ControlQueue(VecDeque::new()),
                answer_first: false,
            },
            receiving: Receiving {
                is_full: false,
                gaps: Gaps::new(),
                budget: CreditBudget::new(room_for_requests(config.receive_frames)),
                senders: Senders::default(),
                fair_shares: PerClass([0, 1].map(|_| FairShare::new(config.window))),
                replies_owed: 0,
            },
            discovery: Discovery::default(),
            time: Times::new(&config),
            deferred: Deferred {
                just_sent: Vec::with_capacity(frames),
                timed: 0,
                dirty: Vec::with_capacity(64),
                received_acks: VecDeque::with_capacity(64),
            },
            outputs: Outputs { events: VecDeque::with_capacity(16), commands: VecDeque::with_capacity(16) },
            placement: Placement::default(),
            counters: Counters::default(),
            random: Random(config.seed),
            now,
            config,
        }
        .start()
    }

    /// What a forked child has instead of its parent's node: no endpoint, and all flows have ended.
    pub fn forked(config: Config, now: Time) -> Self {
        let mut core = Core::new(config, now);
        core.flows.is_forked = true;
        core
    }

    fn start(mut self) -> Self {
        self.broadcast_beacon(true);
        self.arm_beacon(self.now);
        let question = self.now + self.config.keepalive_round();
        self.time.timers.arm(&mut self.time.keepalive_timer, TimerKind::Keepalive, 0, question);
        self
    }
}
