//! What a control frame has to pass before its node sees it. The kernel's program has the same
//! (`bpf/gate.h`); transports without one ask here.
//!
//! ```text
//!   control frame ──▶ a body of its kind's size? ──▶ its source's rate? ──▶ the rate of all? ──▶ the node
//!                         no: senseless                no: over the limit     no: over the limit
//! ```
//!
//! Messages need a flow that was set up; control frames need nothing, so a flood of them is anybody's to send. What makes no
//! sense is dropped first and costs no true frame its place. A source has a rate of its own, so a stranger with one address slows nobody
//! down but itself and the few that share its bucket. The rate of all bounds what a stranger with many addresses can do; of that rate a part is kept for
//! known addresses, those of nodes that have shown that they hear what is sent there.

use crate::frame::{ETHERNET, SMALLEST};
use crate::length::SHORT;
use crate::{Address, EtherType, bare, form};

/// Buckets; sources share them by a hash of the address. It has no secret: whoever could choose an address that falls
/// into another's bucket can as well send with that address.
pub const SOURCES: usize = 1024;
/// Between two frames of one source, in nanoseconds, on average.
pub const EACH_NS: u64 = 50_000;
/// So many may come at once: two for each flow that a peer can have.
pub const EACH_BURST: u64 = 32_768;
/// Between two frames of all sources.
pub const ALL_NS: u64 = 25_000;
/// So many may come at once.
pub const ALL_BURST: u64 = 49_152;
/// So many where the source is known: while strangers fill the bucket up to [`ALL_BURST`], this much is left.
pub const KNOWN_BURST: u64 = 65_536;

/// Why a control frame is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Of no kind that there is, or of another size than its kind has.
    Senseless,
    /// There were too many.
    OverLimit,
}

/// A leaky bucket: when it would be empty, in nanoseconds of whatever clock.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket(u64);

impl Bucket {
    const fn has_room(self, now: u64, interval: u64, burst: u64) -> bool {
        self.0.saturating_sub(now) < interval * burst
    }

    fn fill(&mut self, now: u64, interval: u64) {
        self.0 = self.0.max(now) + interval;
    }
}

/// The rates, as they are now.
#[derive(Clone, Debug)]
pub struct Gate {
    each: [Bucket; SOURCES],
    /// The last known address that has this bucket.
    known: [Address; SOURCES],
    all: Bucket,
}

impl Gate {
    /// Nothing has come yet.
    pub const fn new() -> Gate {
        Gate { each: [Bucket(0); SOURCES], known: [Address([0; 6]); SOURCES], all: Bucket(0) }
    }

    /// A node that has this address has shown that it hears what is sent there.
    pub const fn know(&mut self, address: Address) {
        self.known[bucket_of(address)] = address;
    }

    /// Whether a frame may pass that [`steer`](crate::steer::steer) found to be a control frame, at a time in nanoseconds.
    ///
    /// # Errors
    /// Why it may not.
    pub fn pass(&mut self, frame: &[u8], ethertype: EtherType, now: u64) -> Result<(), Refused> {
        let Some(smallest) = frame.first_chunk().filter(|smallest| is_sensible(smallest, frame.len(), ethertype))
        else {
            return Err(Refused::Senseless);
        };
        let from = source(smallest);
        let at = bucket_of(from);
        let each = &mut self.each[at];
        let all_burst = if self.known[at] == from { KNOWN_BURST } else { ALL_BURST };
        if !each.has_room(now, EACH_NS, EACH_BURST) || !self.all.has_room(now, ALL_NS, all_burst) {
            return Err(Refused::OverLimit);
        }
        each.fill(now, EACH_NS);
        self.all.fill(now, ALL_NS);
        Ok(())
    }
}

impl Default for Gate {
    fn default() -> Gate {
        Gate::new()
    }
}

fn source(frame: &[u8; SMALLEST]) -> Address {
    let [.., a, b, c, d, e, f, _, _] = *frame.first_chunk::<ETHERNET>().unwrap_or(&[0; ETHERNET]);
    Address([a, b, c, d, e, f])
}

/// The bucket of a source. Multiplicative hashing: the upper ten bits (Knuth, volume 3, 6.4).
pub const fn bucket_of(source: Address) -> usize {
    (source.to_u64().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SOURCES.ilog2())) as usize
}

/// Whether the body has a size that its first byte allows. What else it says, only the node looks at.
fn is_sensible(frame: &[u8; SMALLEST], length: usize, ethertype: EtherType) -> bool {
    let kind = u16::from_be_bytes([frame[12], frame[13]]);
    let bits = bare::from_source(source(frame).to_u64()).unwrap_or(0);
    let (body_at, form, code) = if kind == ethertype.plain() {
        (26, frame[15], form::length_code(frame[15], frame[19]))
    } else if bare::is_bare(bits) {
        (14, 0, bare::length_code(bits))
    } else {
        (22, frame[14], form::length_code(frame[14], frame[18]))
    };
    let size = if code == SHORT { (frame[SMALLEST - 1] >> 2) as usize } else { length - body_at };
    form::words(form) == 0 && has_size(frame[body_at], size)
}

/// By the code that a body begins with (`docs/wire.md`). Only a long probe has no longest size.
const fn has_size(code: u8, size: usize) -> bool {
    match code {
        1 => size >= 31 && size <= 61,
        2 => size >= 54 && size <= 114,
        3 => size == 25,
        4 | 7 => size == 6,
        5 => size == 33,
        6 => size >= 14,
        8 => size == 9,
        9 => size == 10 || size == 34,
        _ => false,
    }
}
