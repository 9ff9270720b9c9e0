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
use std::sync::Arc;

use am_ring::Mapping;
use am_ring::lane::{Duplex, LaneLayout, Pair, Shared, SleepWord};
use am_wire::control::Control;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};

const DAEMON_ASLEEP: usize = 0;
const PROGRAM_ASLEEP: usize = 128;
const LANES: usize = 256;

/// The longest frame of a port: the longest IP packet.
pub const MAX_FRAME: usize = 65_536;

/// The smallest `max_frame` of a port: the longest control frame.
pub const MIN_FRAME: usize = Control::MAX_FRAME;

/// The sizes of a region with frames of at most `max_frame` bytes. `None` for a frame length that no port has.
fn layout(max_frame: usize) -> Option<LaneLayout> {
    (MIN_FRAME..=MAX_FRAME).contains(&max_frame).then(|| LaneLayout::for_frames(max_frame))?
}

fn bytes(lane: &LaneLayout) -> usize {
    (LANES + 2 * lane.bytes()).next_multiple_of(4096)
}

/// One end of a region, without its lanes.
#[derive(Debug)]
pub(crate) struct Region {
    memory: Shared,
    /// Whether this end sleeps, and whether the other does.
    own_word: SleepWord,
    other_word: SleepWord,
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
    /// Map one end of a region, and begin a session in the lane to the other end. `session` names the attachment.
    pub(crate) fn map(memory: impl AsFd, max_frame: usize, session: u32, end: End) -> io::Result<(Region, Duplex)> {
        let lane = layout(max_frame).ok_or_else(|| invalid("no port has frames of this length"))?;
        let length = bytes(&lane);
        let is_sealed = fcntl_get_seals(&memory)?.contains(SealFlags::SHRINK);
        if !is_sealed || fstat(&memory)?.st_size as u64 != length as u64 {
            return Err(invalid("the memory does not have the agreed size, or is not sealed"));
        }
        // The program populates the pages, so that the kernel charges them to the program and not to the daemon.
        let memory = Shared::of(Arc::new(match end {
            End::Program => Mapping::populated(memory, 0, length)?,
            End::Daemon => Mapping::of_file(memory, length)?,
        }));
        let (up, down) = (memory.part(LANES, lane.bytes()), memory.part(LANES + lane.bytes(), lane.bytes()));
        let (pair_up, pair_down) = (Pair::new(session, 1), Pair::new(session, 2));
        let ((to, pair_to), (from, pair_from), [own_word, other_word]) = match end {
            End::Program => ((up, pair_up), (down, pair_down), [PROGRAM_ASLEEP, DAEMON_ASLEEP]),
            End::Daemon => ((down, pair_down), (up, pair_up), [DAEMON_ASLEEP, PROGRAM_ASLEEP]),
        };
        let mut lanes = Duplex::new(to, from, lane);
        lanes.connect(pair_to, pair_from);
        let [own_word, other_word] = [own_word, other_word].map(|offset| SleepWord::at(&memory, offset));
        Ok((Region { memory, own_word, other_word }, lanes))
    }

    /// This end's word, which it sets before it sleeps.
    pub(crate) fn asleep(&self) -> &SleepWord {
        &self.own_word
    }

    /// Make the frames visible that were pushed into the lane to the other end. Returns whether the caller must wake it.
    #[inline]
    pub(crate) fn publish(&self, lanes: &mut Duplex) -> bool {
        if !lanes.to.publish() {
            return false;
        }
        SleepWord::after_publish();
        self.other_word.take()
    }

    /// Release the memory to the system, even if the other end keeps it mapped. All its bytes are zero then.
    pub(crate) fn release(&self, mut lanes: Duplex) {
        // Offer a new session first, so that the other end notices that a frame that it reads now is not whole.
        lanes.offer();
        self.memory.discard();
    }
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
        let (daemon, mut to_program) = Region::map(&memory, 1514, 1, End::Daemon).unwrap();
        assert!(used() < 64 * 1024, "{} bytes are counted for the daemon", used());
        let (_program, mut to_daemon) = Region::map(&memory, 1514, 1, End::Program).unwrap();
        assert_eq!(used(), fstat(&memory).unwrap().st_size);
        to_program.to.push(&[7; 1000]).unwrap();
        to_program.to.publish();
        let Peeked::Frame(length) = to_daemon.look() else { panic!("it was published") };
        daemon.release(to_program);
        assert!(used() < 64 * 1024, "{} bytes are left", used());
        assert!(!to_daemon.from.take(&mut [0; 1000][..length]), "it is not whole");
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
