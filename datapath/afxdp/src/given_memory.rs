//! The memory of a queue that another process has made. Its shape and its seals are checked before it is mapped.

use std::io;
use std::os::fd::OwnedFd;

use am_ring::{Layout, LayoutError, Mapping, Pool};
use am_transport::QueueShape;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};

use crate::chunk_layout::HEADROOM;
use crate::errors::MAX_RING_ENTRIES;

/// A daemon of this version gives no more chunks.
const MAX_CHUNKS: u32 = 1 << 20;

/// Why a queue cannot be used.
#[derive(thiserror::Error)]
pub(crate) enum GivenQueueError {
    /// The numbers of its shape are none that this version gives.
    #[error("the queue has a shape of another version: start program and daemon of one version")]
    Shape,
    /// The size of the memory is not sealed. Whoever shortens it would end this process by SIGBUS.
    #[error("the memory of the queue can still be shortened, so no daemon of ours has made it")]
    NotSealed,
    /// The memory is no pool.
    #[error(transparent)]
    Pool(#[from] LayoutError),
    /// The kernel refused.
    #[error("mapping the rings of the queue: {0}; another process's rings need Linux 6.4 or newer")]
    Map(io::Error),
}

am_transport::debug_as_display!(GivenQueueError);

/// Map the memory of a queue, as a pool of frames of one chunk. The pool keeps it mapped.
///
/// # Errors
/// See [`GivenQueueError`].
///
/// # Safety
/// The process that made the memory is trusted as a NIC is: it writes to no frame that the program has. Nothing else in
/// this process accesses the memory.
pub(crate) unsafe fn map(memory: &OwnedFd, shape: &QueueShape, max_frame: usize) -> Result<Pool, GivenQueueError> {
    let QueueShape { chunk, chunks, entries, .. } = *shape;
    let fits = HEADROOM.checked_add(max_frame).is_some_and(|end| end <= chunk as usize) && chunks <= MAX_CHUNKS;
    if !chunk.is_power_of_two() || !entries.is_power_of_two() || entries > MAX_RING_ENTRIES || !fits {
        return Err(GivenQueueError::Shape);
    }
    let bytes = chunk as usize * chunks as usize;
    let seals = fcntl(memory, FcntlArg::F_GET_SEALS).map(SealFlag::from_bits_truncate).unwrap_or(SealFlag::empty());
    if !seals.contains(SealFlag::F_SEAL_SHRINK) {
        return Err(GivenQueueError::NotSealed);
    }
    let length = nix::sys::stat::fstat(memory).map_err(|error| GivenQueueError::Map(error.into()))?.st_size;
    if length != bytes as i64 {
        return Err(GivenQueueError::Shape);
    }
    let mapping = Mapping::populated(memory, 0, bytes).map_err(GivenQueueError::Map)?;
    let layout = Layout { frames: chunks as usize, stride: chunk as usize, headroom: HEADROOM };
    // SAFETY: initialised memory of this length that stays mapped until the pool drops it, and cannot be shortened. The
    // kernel accesses only chunks that were put into the rings. The rest is the caller's promise.
    Ok(unsafe { Pool::over(mapping.base(), layout, Box::new(mapping))? })
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::fd::AsFd;

    use nix::sys::memfd::{MFdFlags, memfd_create};

    const SHAPE: QueueShape = QueueShape { queue: 0, chunk: 2048, chunks: 16, entries: 8, zero_copy: false };

    fn memory(seals: SealFlag) -> OwnedFd {
        let memory = memfd_create(c"given", MFdFlags::MFD_ALLOW_SEALING).unwrap();
        nix::unistd::ftruncate(&memory, 2048 * 16).unwrap();
        fcntl(memory.as_fd(), FcntlArg::F_ADD_SEALS(seals)).unwrap();
        memory
    }

    /// Whether it can be mapped.
    fn map(memory: &OwnedFd, shape: &QueueShape, max_frame: usize) -> Result<(), GivenQueueError> {
        // SAFETY: this test's own memory, which nothing accesses.
        unsafe { super::map(memory, shape, max_frame) }.map(drop)
    }

    #[test]
    fn memory_that_can_be_shortened_is_refused() {
        for seals in [SealFlag::empty(), SealFlag::F_SEAL_GROW, SealFlag::F_SEAL_SEAL] {
            assert!(matches!(map(&memory(seals), &SHAPE, 1514), Err(GivenQueueError::NotSealed)), "{seals:?}");
        }
        let file = std::fs::File::open("/dev/zero").unwrap().into();
        assert!(matches!(map(&file, &SHAPE, 1514), Err(GivenQueueError::NotSealed)));
        assert!(map(&memory(SealFlag::F_SEAL_SHRINK), &SHAPE, 1514).is_ok());
    }

    #[test]
    fn only_the_shape_of_the_memory_is_mapped() {
        const EXTREMES: [u32; 9] = [0, 1, 16, 2047, 2048, 1 << 15, 1 << 20, 1 << 31, u32::MAX];
        let memory = memory(SealFlag::F_SEAL_SHRINK);
        for chunk in EXTREMES {
            for chunks in EXTREMES {
                for entries in EXTREMES {
                    for max_frame in [0, 1514, 1792, 1793, usize::MAX - HEADROOM, usize::MAX] {
                        let shape = QueueShape { chunk, chunks, entries, ..SHAPE };
                        let is_right = (chunk, chunks, max_frame <= 1792) == (2048, 16, true)
                            && entries.is_power_of_two()
                            && entries <= 1 << 15;
                        // The same bytes, in other pieces.
                        let is_other = (chunk, chunks) == (1 << 15, 1)
                            && max_frame <= 1793
                            && entries.is_power_of_two()
                            && entries <= 1 << 15;
                        let mapped = map(&memory, &shape, max_frame).is_ok();
                        assert_eq!(mapped, is_right || is_other, "{shape:?}, {max_frame}");
                    }
                }
            }
        }
    }
}
