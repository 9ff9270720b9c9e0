//! All checkers of a run.

use engine::Engine;
use netdev_sim::check::credits::Credits;
use netdev_sim::check::delivery::Deliveries;
use netdev_sim::check::endings::Endings;
use netdev_sim::check::{Checked, frames, memory};
use netdev_sim::{Nanos, Net};

#[derive(Debug, Default)]
pub struct Checks {
    pub deliveries: Deliveries,
    pub credits: Credits,
    pub endings: Endings,
    /// The last requests, which bring what news of credit was lost: all are answered.
    pub is_encore: bool,
    /// From now on nothing new is begun.
    pub quiet_from: Nanos,
    /// Everything that was delivered, in its order: two runs of a seed have the same.
    pub digest: u64,
    pub frames: Vec<usize>,
}

impl Checks {
    pub fn is_quiet(&self, now: Nanos) -> bool {
        now >= self.quiet_from
    }

    pub fn note(&mut self, now: Nanos, what: u64) {
        self.digest = (self.digest ^ now ^ what.rotate_left(32)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
    }

    /// What can be seen of a node's NIC, and of the frames that the node holds.
    pub fn nic(&mut self, net: &mut Net, node: usize, engine: &Engine) -> Checked {
        self.frames.clear();
        engine.frames(&mut |frame| self.frames.push(frame.index()));
        frames::running(net.nic(node), &self.frames)?;
        memory::bounded(net, node)
    }
}
