//! The transport's counters.

/// Each counter has its field's name with `shm_` in front.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) full: u64,
    pub(crate) lost_too_long: u64,
    pub(crate) lost_alone: u64,
    pub(crate) lost_dead: u64,
    pub(crate) lost_hung: u64,
    pub(crate) no_frame: u64,
    pub(crate) nonsense: u64,
    pub(crate) restarts: u64,
    pub(crate) rings: u64,
    pub(crate) no_bell: u64,
    pub(crate) sleeps: u64,
}

impl Counters {
    pub(crate) fn each(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("shm_sent", self.sent);
        each("shm_received", self.received);
        each("shm_full", self.full);
        each("shm_lost_too_long", self.lost_too_long);
        each("shm_lost_alone", self.lost_alone);
        each("shm_lost_dead", self.lost_dead);
        each("shm_lost_hung", self.lost_hung);
        each("shm_no_frame", self.no_frame);
        each("shm_nonsense", self.nonsense);
        each("shm_restarts", self.restarts);
        each("shm_rings", self.rings);
        each("shm_no_bell", self.no_bell);
        each("shm_sleeps", self.sleeps);
    }
}
