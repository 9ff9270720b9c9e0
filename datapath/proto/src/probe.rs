//! Probing: which framing can be used towards a peer?
//!
//! Two questions, asked once for each peer. *Do forged source addresses
//! arrive?* If not, something filters them: `plain`. *Does something learn
//! them?* A frame sent **to** the forged address is kept back by a switch that
//! has learned it at our own port, and arrives where nothing learns: then
//! `bare`, else `split`. An answer that gets lost costs a better framing, never
//! a wrong one.

use core::time::Duration;

use wire::control::{Control, Probe, ProbeSeen, Step};
use wire::frame::split_source;
use wire::{Address, Buffer, Flow, Framing};

use crate::config::FramingChoice;
use crate::node::Core;
use crate::output::FramingWhy;
use crate::peers::{Path, Probing};
use crate::time::Time;
use crate::timers::Wait;

/// How often each probe is sent before its silence is an answer.
const TRIES: u8 = 4;
/// Between two probes.
const INTERVAL: Duration = Duration::from_millis(4);
/// Switches learn in the background: so much time they are given.
const LEARNING: Duration = Duration::from_millis(12);

impl<B: Buffer> Core<B> {
    /// The framing to use towards a peer; `None` while it is being found out.
    pub(crate) fn framing_to(&mut self, now: Time, at: usize) -> Option<(Framing, FramingWhy)> {
        if let FramingChoice::Fixed(framing) = self.config.framing {
            return Some((framing, FramingWhy::Configured));
        }
        let record = self.peers.get(at)?;
        match record.path {
            Path::Known(framing, why) => Some((framing, why)),
            Path::Probing(_) => None,
            Path::Unknown => {
                let id = self.random.next() as u32;
                record.path = Path::Probing(Probing { id, tries: 0, forged_seen: None });
                self.probe(now, at);
                None
            }
        }
    }

    /// The next probe, or the conclusion.
    fn probe(&mut self, now: Time, at: usize) {
        let node = self.config.node;
        let forged = split_source(Flow::NODE, self.config.address);
        let Some(record) = self.peers.get(at) else { return };
        let Path::Probing(probing) = &mut record.path else { return };
        if probing.tries == TRIES {
            let concluded = match probing.forged_seen {
                None => Path::Known(Framing::Plain, FramingWhy::ForgedDropped),
                Some(_) => Path::Known(Framing::Split, FramingWhy::SwitchLearns),
            };
            record.path = concluded;
            let name = record.peer.name;
            return self.advance_asking(now, name);
        }
        probing.tries += 1;
        let (step, to, framing) = match probing.forged_seen {
            None => (Step::Forged, record.peer.address, Framing::Split),
            Some(_) => (Step::Learned, forged, Framing::Plain),
        };
        self.control.push_framed(to, framing, Control::Probe(Probe { id: probing.id, node, step }));
        self.timers.arm(&mut record.armed, Wait::Probe, at as u16, now + INTERVAL);
    }

    pub(crate) fn probe_timeout(&mut self, now: Time, at: Time, owner: u16) {
        let fired = self.peers.get(owner as usize).is_some_and(|record| record.armed.fired(at));
        if fired {
            self.probe(now, owner as usize);
        }
    }

    /// A peer's probe arrived: tell it. Where it is nobody's, who sent it missed us, or we missed them: everybody
    /// is asked, but sparingly, as it may be made up.
    pub(crate) fn on_probe(&mut self, probe: &Probe) {
        let Some(at) = self.peers.by_node(probe.node) else {
            if self.probes.is_time(self.now, self.peers.count()) {
                self.announce(true);
            }
            return;
        };
        if let Some(record) = self.peers.get(at) {
            let to = record.peer.address;
            self.control.push(to, Control::ProbeSeen(ProbeSeen { id: probe.id, step: probe.step }));
        }
    }

    /// A probe of ours arrived. Hosts that overheard it answer too: only the
    /// peer's own answer counts.
    pub(crate) fn on_probe_seen(&mut self, now: Time, source: Address, seen: &ProbeSeen) {
        if self.claimant_answers(now, source, seen) {
            return;
        }
        let Some(record) = self.peers.by_address(source).and_then(|at| self.peers.get(at)) else { return };
        record.mute = false;
        let Path::Probing(probing) = &mut record.path else { return };
        if probing.id != seen.id {
            return;
        }
        match (seen.step, probing.forged_seen) {
            (Step::Forged, None) => {
                probing.forged_seen = Some(now);
                probing.tries = 0;
                let at = self.peers.by_address(source).unwrap_or_default();
                self.learn_then_probe(now, at);
            }
            (Step::Learned, Some(_)) => {
                record.path = Path::Known(Framing::Bare, FramingWhy::NothingLearns);
                let name = record.peer.name;
                self.advance_asking(now, name);
            }
            _ => {}
        }
    }

    /// Give switches time to learn the forged address before it is tried as a
    /// destination.
    fn learn_then_probe(&mut self, now: Time, at: usize) {
        if let Some(record) = self.peers.get(at) {
            record.armed.disarm();
            self.timers.arm(&mut record.armed, Wait::Probe, at as u16, now + LEARNING);
        }
    }
}
