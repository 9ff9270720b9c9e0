//! Admits control frames to their node. The XDP program has the same gate (`bpf/gate.h`); transports without a program
//! ask here.
//!
//! ```text
//!   control frame ──▶ a body of its kind's size? ──▶ its source's rate? ──▶ the rate of all? ──▶ the node
//!                         no: malformed                no: over the limit     no: over the limit
//! ```
//!
//! Messages need a flow that was set up. Control frames need nothing, so anybody can send a flood of them. Malformed
//! frames are dropped first, and do not use up the rate of valid ones. Each source has its own rate, so a stranger
//! with one address slows down only itself and the few that share its bucket. The rate of all sources bounds a
//! stranger with many addresses. A part of that rate is reserved for known addresses: those of nodes that have
//! proved that they receive there.

use crate::control::Control;
use crate::frame::{ETHERNET_HEADER, MIN_FRAME, read_header};
use crate::length::SHORT_FRAME_CODE;
use crate::{Address, EtherType};

/// Buckets. Sources share them by a hash of the address. The hash has no secret: a host that can choose an address in
/// another's bucket can also send with that other's address.
pub const SOURCES: usize = 1024;
/// The rate limit of one source, as the smallest mean interval between its frames, in nanoseconds.
pub const SOURCE_INTERVAL_NS: u64 = 50_000;
/// How many may come at once: two for each flow that a peer can have.
pub const SOURCE_BURST: u64 = 32_768;
/// The rate limit of all sources together, as the smallest mean interval between frames, in nanoseconds.
pub const TOTAL_INTERVAL_NS: u64 = 25_000;
/// How many may come at once.
pub const TOTAL_BURST: u64 = 49_152;
/// How many from known sources: while strangers fill the bucket up to [`TOTAL_BURST`], the rest is left for these.
pub const KNOWN_BURST: u64 = 65_536;

/// Why a control frame is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateError {
    /// Of an unknown kind, or of another size than its kind has.
    Malformed,
    /// There were too many.
    OverLimit,
}

/// A leaky bucket: the time at which it would be empty, in nanoseconds of any clock.
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

/// The present rates.
#[derive(Clone, Debug)]
pub struct Gate {
    each: [Bucket; SOURCES],
    /// The last known address of this bucket.
    known: [Address; SOURCES],
    all: Bucket,
}

impl Gate {
    /// Note an address at which a node has proved that it receives.
    pub const fn add_known(&mut self, address: Address) {
        self.known[bucket_of(address)] = address;
    }

    /// Whether a control frame (as [`steer`](crate::steer::steer) decided) passes at the time `now`, in nanoseconds.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn pass(&mut self, frame: &[u8], ethertype: EtherType, now: u64) -> Result<(), GateError> {
        let Some(smallest) = frame.first_chunk().filter(|smallest| is_sensible(smallest, frame.len(), ethertype))
        else {
            return Err(GateError::Malformed);
        };
        let from = source(smallest);
        let at = bucket_of(from);
        let each = &mut self.each[at];
        let all_burst = if self.known[at] == from { KNOWN_BURST } else { TOTAL_BURST };
        if !each.has_room(now, SOURCE_INTERVAL_NS, SOURCE_BURST)
            || !self.all.has_room(now, TOTAL_INTERVAL_NS, all_burst)
        {
            return Err(GateError::OverLimit);
        }
        each.fill(now, SOURCE_INTERVAL_NS);
        self.all.fill(now, TOTAL_INTERVAL_NS);
        Ok(())
    }
}

impl Default for Gate {
    fn default() -> Gate {
        Gate { each: [Bucket(0); SOURCES], known: [Address([0; 6]); SOURCES], all: Bucket(0) }
    }
}

fn source(frame: &[u8; MIN_FRAME]) -> Address {
    let [.., a, b, c, d, e, f, _, _] = *frame.first_chunk::<ETHERNET_HEADER>().unwrap_or(&[0; ETHERNET_HEADER]);
    Address([a, b, c, d, e, f])
}

/// The bucket of a source. Multiplicative hashing: the upper ten bits (Knuth, volume 3, 6.4).
pub const fn bucket_of(source: Address) -> usize {
    (source.to_u64().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SOURCES.ilog2())) as usize
}

/// Whether the body has a size that its first byte allows. Only the node checks the rest.
fn is_sensible(frame: &[u8; MIN_FRAME], length: usize, ethertype: EtherType) -> bool {
    let is_plain = u16::from_be_bytes([frame[12], frame[13]]) == ethertype.plain();
    let Ok((framing, (header, code))) = read_header(frame, source(frame).to_u64(), is_plain) else { return false };
    let at = framing.body_at();
    let size = if code == SHORT_FRAME_CODE { (frame[MIN_FRAME - 1] >> 2) as usize } else { length - at };
    header.words == 0 && has_size(frame[at], size)
}

/// Whether `size` is right for a control frame whose body starts with `code` (`docs/wire.md`), with or without an authentication code.
const fn has_size(code: u8, size: usize) -> bool {
    has_content_size(code, size)
        || size > Control::AUTH_CODE_BYTES && has_content_size(code, size - Control::AUTH_CODE_BYTES)
}

/// The same without the code. Only code 6, a long probe, has no largest size.
const fn has_content_size(code: u8, size: usize) -> bool {
    match code {
        1 => size >= 31 && size <= 61,  // beacon
        2 => size >= 58 && size <= 118, // connect
        3 => size == 29,                // accept
        4 | 7 => size == 6,             // refuse, probe seen
        5 => size == 34,                // close
        6 => size >= 14,                // probe
        8 => size == 9,                 // keepalive
        9 => size == 10 || size == 35,  // closed
        10 => size == 17,               // leave
        _ => false,
    }
}
