//! The counters of the program's end.

use am_ring::lane::LaneCounters;

/// Each counter has its field's name with `amd_` in front.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) full: u64,
    pub(crate) lost_too_long: u64,
    pub(crate) lost_detached: u64,
    pub(crate) lanes: LaneCounters,
    pub(crate) rings: u64,
    pub(crate) sleeps: u64,
    pub(crate) attached: u64,
}

impl Counters {
    pub(crate) fn each(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("amd_sent", self.sent);
        each("amd_received", self.received);
        each("amd_full", self.full);
        each("amd_lost_too_long", self.lost_too_long);
        each("amd_lost_detached", self.lost_detached);
        each("amd_no_frame", self.lanes.no_frame);
        each("amd_nonsense", self.lanes.nonsense);
        each("amd_rings", self.rings);
        each("amd_sleeps", self.sleeps);
        each("amd_attached", self.attached);
    }
}
