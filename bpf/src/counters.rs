use wire::Reason;
use wire::steer::Pass;

/// What happened to the frames that came in, since the program was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Counters {
    pass: [u64; 8],
    drop: [u64; 32],
    /// Given to a socket; whether its ring had room, the socket's own statistics tell.
    pub redirected: u64,
    /// Dropped: they came in on another queue than the one their socket is bound
    /// to, where the kernel would lose them without a trace. `ethtool -N` moves them.
    pub wrong_queue: u64,
    /// Dropped: their flow's socket is closed, or not open yet.
    pub no_socket: u64,
}

// SAFETY: `repr(C)` and nothing but u64: no padding, any bytes are a value.
unsafe impl aya::Pod for Counters {}

/// The reasons that steering can see, and their counters' names.
const DROPS: [(Reason, &str); 6] = [
    (Reason::Short, "xdp_drop_short"),
    (Reason::Source, "xdp_drop_bad_source"),
    (Reason::Version, "xdp_drop_unknown_version"),
    (Reason::Kind, "xdp_drop_unknown_kind"),
    (Reason::NoFlow, "xdp_drop_unknown_flow"),
    (Reason::NodeFlow, "xdp_drop_misused_flow_zero"),
];

impl Counters {
    /// Frames that went on to the kernel's stack.
    pub fn passed(&self, why: Pass) -> u64 {
        self.pass[why as usize]
    }

    /// Frames of ours that make no sense.
    pub fn dropped(&self, why: Reason) -> u64 {
        self.drop[why as usize]
    }

    /// Name and value of each counter.
    pub fn each(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("xdp_redirected", self.redirected);
        each("xdp_pass_foreign", self.passed(Pass::Foreign));
        each("xdp_pass_other_host", self.passed(Pass::OtherHost));
        for (reason, name) in DROPS {
            each(name, self.dropped(reason));
        }
        each("xdp_drop_wrong_queue", self.wrong_queue);
        each("xdp_drop_no_socket", self.no_socket);
    }

    /// The sum over the processors, each of which counts on its own.
    pub(crate) fn sum<'a>(parts: impl IntoIterator<Item = &'a Counters>) -> Counters {
        parts.into_iter().fold(Counters::default(), |mut sum, part| {
            let pairs = sum.pass.iter_mut().zip(&part.pass).chain(sum.drop.iter_mut().zip(&part.drop));
            pairs.for_each(|(sum, part)| *sum += part);
            sum.redirected += part.redirected;
            sum.wrong_queue += part.wrong_queue;
            sum.no_socket += part.no_socket;
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_reasons() {
        for (reason, name) in DROPS {
            assert_eq!(name, format!("xdp_drop_{}", reason.name()));
        }
    }

    #[test]
    fn the_sum_covers_every_counter() {
        let mut part = Counters { redirected: 1, wrong_queue: 2, no_socket: 3, ..Counters::default() };
        part.pass[1] = 4;
        part.drop[5] = 5;
        let sum = Counters::sum(&[part, part]);
        assert_eq!((sum.redirected, sum.wrong_queue, sum.no_socket), (2, 4, 6));
        assert_eq!((sum.passed(Pass::OtherHost), sum.dropped(Reason::NodeFlow)), (8, 10));
    }
}
