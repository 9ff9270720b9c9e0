use std::fmt;

use am_wire::Reason;
use am_wire::gate::GateError;
use am_wire::stamp::Refusal;
use am_wire::steer::PassReason;
use aya::maps::{MapData, MapError, PerCpuArray};

// The counters by number, as in `steer.bpf.c`.
const PASS: usize = 0;
const DROP: usize = 8;
const REDIRECTED: usize = 40;
pub(crate) const WRONG_QUEUE: usize = 41;
const NO_SOCKET: usize = 42;
const BOUNCED: usize = 43;
const LOST: usize = 44;
const GATE: usize = 45;
const STAMPED: usize = 48;
const STAMPED_AGAIN: usize = 49;
const STAMP_REFUSED: usize = 50;
const COUNTERS: usize = 64;

/// All counters of steering, and their names.
const NAMES: [(usize, &str); 29] = [
    (REDIRECTED, "xdp_redirected"),
    (PASS + PassReason::Foreign as usize, "xdp_pass_foreign"),
    (PASS + PassReason::OtherHost as usize, "xdp_pass_other_host"),
    (dropped(Reason::Short), "xdp_drop_short"),
    (dropped(Reason::Source), "xdp_drop_bad_source"),
    (dropped(Reason::Version), "xdp_drop_unknown_version"),
    (dropped(Reason::Kind), "xdp_drop_unknown_kind"),
    (dropped(Reason::NoFlow), "xdp_drop_unknown_flow"),
    (dropped(Reason::NodeFlow), "xdp_drop_misused_flow_zero"),
    (dropped(Reason::Length), "xdp_drop_bad_length"),
    (dropped(Reason::Words), "xdp_drop_bad_words"),
    (dropped(Reason::Body), "xdp_drop_bad_body"),
    (dropped(Reason::NoGroup), "xdp_drop_unknown_group"),
    (WRONG_QUEUE, "xdp_drop_wrong_queue"),
    (NO_SOCKET, "xdp_drop_no_socket"),
    (BOUNCED, "xdp_bounced"),
    (GATE + 1 + GateError::Malformed as usize, "xdp_drop_senseless_control"),
    (GATE + 1 + GateError::OverLimit as usize, "xdp_drop_control_over_limit"),
    (LOST, "xdp_lost_on_purpose"),
    (STAMPED, "xdp_stamped"),
    (STAMPED_AGAIN, "xdp_stamped_again"),
    (STAMP_REFUSED + Refusal::Epoch as usize, "xdp_unstamped_epoch"),
    (STAMP_REFUSED + Refusal::Lease as usize, "xdp_unstamped_lease"),
    (STAMP_REFUSED + Refusal::Sender as usize, "xdp_unstamped_sender"),
    (STAMP_REFUSED + Refusal::Address as usize, "xdp_unstamped_address"),
    (STAMP_REFUSED + Refusal::Tag as usize, "xdp_unstamped_tag"),
    (STAMP_REFUSED + Refusal::Gap as usize, "xdp_unstamped_gap"),
    (STAMP_REFUSED + Refusal::Forgotten as usize, "xdp_unstamped_forgotten"),
    (STAMP_REFUSED + Refusal::Credit as usize, "xdp_unstamped_credit"),
];

/// Dropped because they are malformed.
pub(crate) const fn dropped(why: Reason) -> usize {
    DROP + why as usize
}

/// One counter: the sum of those of the processors.
pub(crate) fn read(map: &PerCpuArray<MapData, u64>, number: usize) -> Result<u64, MapError> {
    Ok(map.get(&(number as u32), 0)?.iter().sum())
}

/// What happened to the frames that arrived since the program was loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    by_number: [u64; COUNTERS],
}

impl Counters {
    /// One system call a counter.
    pub(crate) fn read(map: &PerCpuArray<MapData, u64>) -> Result<Counters, MapError> {
        let mut by_number = [0; COUNTERS];
        for (number, _) in NAMES {
            by_number[number] = read(map, number)?;
        }
        Ok(Counters { by_number })
    }

    /// Name and value of each counter; counters that are optional only if they count.
    pub fn each(&self, each: &mut dyn FnMut(&'static str, u64)) {
        for (number, name) in NAMES {
            if !matches!(number, REDIRECTED | LOST | STAMPED..) || self.by_number[number] > 0 {
                each(name, self.by_number[number]);
            }
        }
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(NAMES.map(|(number, name)| (name, self.by_number[number]))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_reasons() {
        let reasons = NAMES.iter().filter(|(number, _)| (DROP..REDIRECTED).contains(number));
        for &(number, name) in reasons {
            assert_eq!(name, format!("xdp_drop_{}", Reason::ALL[number - DROP].name()));
        }
    }

    #[test]
    fn no_reason_runs_into_the_next_counter() {
        assert!(DROP + Reason::ALL.len() <= REDIRECTED);
    }
}
