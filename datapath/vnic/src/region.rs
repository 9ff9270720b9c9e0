//! The memory that a program shares with the daemon: two lanes, and for each end a word that says whether it sleeps.
//!
//! ```text
//!      0  daemon asleep      1: the program wakes it after sending
//!    128  program asleep     1: the daemon wakes it after delivering
//!    256  lane program ─▶ daemon
//!         lane daemon ─▶ program
//! ```
//!
//! The daemon makes the memory and seals its size. So no program can truncate it, which would kill the daemon (SIGBUS).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use am_ring::lane::{LaneLayout, Pair, Receiver, Sender, Shared};
use am_wire::control::Control;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

const DAEMON_ASLEEP: usize = 0;
const PROGRAM_ASLEEP: usize = 128;
const LANES: usize = 256;

/// The smallest size of a lane in bytes. A lane of this size fits the L2 cache.
const MIN_LANE_BYTES: usize = 256 * 1024;

/// The longest frame of a port: the longest IP packet.
pub const MAX_FRAME: usize = 65_536;

/// The smallest `max_frame` of a port: the longest control frame.
pub const MIN_FRAME: usize = Control::MAX_FRAME;

/// The sizes of a region with frames of at most `max_frame` bytes. `None` for a frame length that no port has.
fn layout(max_frame: usize) -> Option<LaneLayout> {
    if !(MIN_FRAME..=MAX_FRAME).contains(&max_frame) {
        return None;
    }
    LaneLayout::new(LaneLayout::least(max_frame)?.max(MIN_LANE_BYTES), max_frame)
}

fn bytes(lane: &LaneLayout) -> usize {
    (LANES + 2 * lane.bytes()).next_multiple_of(4096)
}

/// One end of a region.
#[derive(Debug)]
pub(crate) struct Region {
    /// The lane to the other end, and the lane from it.
    pub(crate) to: Sender,
    pub(crate) from: Receiver,
    pair_to: Pair,
    pair_from: Pair,
    memory: Shared,
    mapping: Arc<Mapping>,
    lane_lines: u32,
    /// The offsets of this end's word and of the other's.
    own_word: usize,
    other_word: usize,
}

/// Which end of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Program,
    Daemon,
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Make the memory of a region.
pub(crate) fn create(max_frame: usize) -> io::Result<OwnedFd> {
    let lane = layout(max_frame).ok_or_else(|| invalid("no port has frames of this length"))?;
    let memory = memfd_create("amd-port", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&memory, bytes(&lane) as u64)?;
    fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(memory)
}

impl Region {
    /// Map one end of a region. `session` names the attachment.
    pub(crate) fn map(memory: impl AsFd, max_frame: usize, session: u32, end: End) -> io::Result<Region> {
        let lane = layout(max_frame).ok_or_else(|| invalid("no port has frames of this length"))?;
        let length = bytes(&lane);
        let is_sealed = fcntl_get_seals(&memory)?.contains(SealFlags::SHRINK);
        if !is_sealed || fstat(&memory)?.st_size as u64 != length as u64 {
            return Err(invalid("the memory does not have the agreed size, or is not sealed"));
        }
        // The program populates the pages, so that the kernel charges them to the program and not to the daemon.
        let (memory, mapping) = map(memory, length, end == End::Program)?;
        let (up, down) = (memory.part(LANES, lane.bytes()), memory.part(LANES + lane.bytes(), lane.bytes()));
        let (pair_up, pair_down) = (Pair::new(session, 1), Pair::new(session, 2));
        let ((to, pair_to), (from, pair_from), [own_word, other_word]) = match end {
            End::Program => ((up, pair_up), (down, pair_down), [PROGRAM_ASLEEP, DAEMON_ASLEEP]),
            End::Daemon => ((down, pair_down), (up, pair_up), [DAEMON_ASLEEP, PROGRAM_ASLEEP]),
        };
        let (mut to, from) = (Sender::new(to, lane), Receiver::new(from, lane));
        to.offer(pair_to);
        let lane_lines = (lane.bytes() / 64) as u32;
        Ok(Region { to, from, pair_to, pair_from, memory, mapping, lane_lines, own_word, other_word })
    }

    /// How many lines of the cache a lane has.
    pub(crate) fn lane_lines(&self) -> u32 {
        self.lane_lines
    }

    /// Accept a session that the other end offers, if it is a new one.
    #[inline]
    pub(crate) fn accept(&mut self) -> bool {
        self.from.accept(self.pair_from)
    }

    /// Make the pushed frames visible. Returns whether the caller must wake the other end.
    #[inline]
    pub(crate) fn publish(&mut self) -> bool {
        use std::sync::atomic::{Ordering::*, fence};
        if !self.to.publish() {
            return false;
        }
        // Either this end sees that the other one sleeps, or the other one sees the frame.
        fence(SeqCst);
        let asleep = self.memory.word(self.other_word);
        asleep.load(Relaxed) != 0 && asleep.swap(0, Relaxed) != 0
    }

    /// Set this end's word, because it is about to sleep. The caller must look for frames once more.
    pub(crate) fn set_asleep(&self) {
        use std::sync::atomic::{Ordering::*, fence};
        self.memory.word(self.own_word).store(1, Relaxed);
        fence(SeqCst); // Pairs with the fence of `publish`.
    }

    /// Clear this end's word.
    pub(crate) fn set_awake(&self) {
        self.memory.word(self.own_word).store(0, std::sync::atomic::Ordering::Relaxed);
    }

    /// Whether the other end has not woken this one since [`set_asleep`](Self::set_asleep).
    pub(crate) fn is_marked_asleep(&self) -> bool {
        self.memory.word(self.own_word).load(std::sync::atomic::Ordering::Relaxed) != 0
    }

    /// Repair lanes that were overwritten. Returns how many.
    #[cold]
    pub(crate) fn repair(&mut self) -> u64 {
        let mut repaired = 0;
        if self.from.has_diverged() {
            let _ = self.from.refuse();
            repaired += 1;
        }
        if self.to.needs_offer() {
            self.to.offer(self.pair_to);
            repaired += 1;
        }
        repaired
    }

    /// Release the memory to the system, even if the other end keeps it mapped. All its bytes are zero then.
    pub(crate) fn release(&mut self) {
        // Offer a new session first, so that the other end notices that a frame that it reads now is not whole.
        self.to.offer(self.pair_to);
        let Mapping { base, bytes } = *self.mapping;
        // SAFETY: the mapping is ours and shared. Its memory is only accessed through `Shared`, which expects that the other end writes at any
        // time, so bytes that change to zero do no harm. If the call fails, the memory is freed when both ends have unmapped it.
        let _ = unsafe { madvise(base.as_ptr(), bytes, Advice::LinuxRemove) };
    }
}

/// A mapping; unmapped when dropped.
#[derive(Debug)]
struct Mapping {
    base: NonNull<std::ffi::c_void>,
    bytes: usize,
}

// SAFETY: the value is only the right to unmap the memory, which any thread may do.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives no access to the memory.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and all users of the memory keep this value.
        let _ = unsafe { munmap(self.base.as_ptr(), self.bytes) };
    }
}

fn map(memory: impl AsFd, bytes: usize, is_filled: bool) -> io::Result<(Shared, Arc<Mapping>)> {
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    let flags = if is_filled { flags | MapFlags::POPULATE } else { flags };
    // SAFETY: a new mapping at an address that the kernel chooses affects no other memory.
    let base = unsafe { mmap(std::ptr::null_mut(), bytes, access, flags, memory, 0) }?;
    let base = NonNull::new(base).ok_or_else(|| invalid("the memory cannot be mapped"))?;
    let (mapping, base) = (Arc::new(Mapping { base, bytes }), base.cast());
    // SAFETY: pages are aligned, and a multiple of a cache line. `Shared` keeps the mapping, and is the only access to
    // it. The file cannot become shorter, because it is sealed.
    Ok((unsafe { Shared::over(base, bytes, mapping.clone()) }, mapping))
}

#[cfg(test)]
mod tests {
    use am_ring::lane::Peeked;

    use super::*;

    #[test]
    fn a_region_cannot_change_its_size() {
        let memory = create(1514).unwrap();
        assert!(ftruncate(&memory, 0).is_err());
        assert!(ftruncate(&memory, 1 << 30).is_err());
    }

    #[test]
    fn the_program_fills_the_memory_and_the_daemon_frees_it() {
        let memory = create(1514).unwrap();
        let used = || fstat(&memory).unwrap().st_blocks * 512;
        let mut daemon = Region::map(&memory, 1514, 1, End::Daemon).unwrap();
        assert!(used() < 64 * 1024, "{} bytes are counted for the daemon", used());
        let mut program = Region::map(&memory, 1514, 1, End::Program).unwrap();
        assert_eq!(used(), fstat(&memory).unwrap().st_size);
        assert!(program.accept());
        daemon.to.push(&[7; 1000]).unwrap();
        daemon.to.publish();
        let Peeked::Frame(length) = program.from.peek() else { panic!("it was published") };
        daemon.release();
        assert!(used() < 64 * 1024, "{} bytes are left", used());
        assert!(!program.from.take(&mut [0; 1000][..length]), "it is not whole");
    }

    #[test]
    fn frame_lengths_have_limits() {
        for wrong in [0, MIN_FRAME - 1, MAX_FRAME + 1, usize::MAX] {
            assert!(create(wrong).is_err(), "{wrong}");
        }
        let memory = create(1514).unwrap();
        assert!(Region::map(&memory, MAX_FRAME, 1, End::Program).is_err(), "the sizes differ");
        assert!(Region::map(&memory, 1514, 1, End::Program).is_ok());
    }

    #[test]
    fn memory_that_is_not_sealed_is_refused() {
        let memory = memfd_create("open", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&memory, bytes(&layout(1514).unwrap()) as u64).unwrap();
        assert!(Region::map(&memory, 1514, 1, End::Program).is_err());
    }
}
