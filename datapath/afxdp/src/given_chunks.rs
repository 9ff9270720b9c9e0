//! The memory of a queue that another process has made: what of it can be checked is checked before it is mapped, and each chunk that the
//! kernel returns is one that it has.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};

use am_ring::{Frame, Layout, LayoutError, Pool};
use am_transport::QueueShape;
use libc::xdp_desc;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};

use crate::chunk_layout::HEADROOM;

/// Why a queue cannot be used.
#[derive(thiserror::Error)]
pub enum GivenQueueError {
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

/// The memory of the frames, mapped. The pool keeps it.
struct Memory(NonNull<c_void>, usize);

// SAFETY: memory is not bound to a thread.
unsafe impl Send for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped with this length; the pool over it is gone.
        unsafe { libc::munmap(self.0.as_ptr(), self.1) };
    }
}

/// Map a part of a file that this process shares with others.
pub(crate) fn map(descriptor: &OwnedFd, bytes: usize, offset: i64) -> io::Result<NonNull<c_void>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
    let memory = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, descriptor.as_raw_fd(), offset) };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(memory).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// The pool, and how often the kernel holds each of its chunks.
#[derive(Debug)]
pub(crate) struct Chunks {
    pub(crate) pool: Pool,
    held: Box<[u16]>,
    chunk: u32,
}

impl Chunks {
    /// Map the memory of a queue.
    ///
    /// # Errors
    /// See [`GivenQueueError`].
    pub(crate) fn map(memory: &OwnedFd, shape: &QueueShape, max_frame: usize) -> Result<Chunks, GivenQueueError> {
        let QueueShape { chunk, chunks, entries, .. } = *shape;
        let fits = HEADROOM.checked_add(max_frame).is_some_and(|end| end <= chunk as usize) && chunks <= 1 << 20;
        if !chunk.is_power_of_two() || !entries.is_power_of_two() || entries > 1 << 15 || !fits {
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
        let mapped = Memory(map(memory, bytes, 0).map_err(GivenQueueError::Map)?, bytes);
        let (base, layout) =
            (mapped.0.cast(), Layout { frames: chunks as usize, stride: chunk as usize, headroom: HEADROOM });
        // SAFETY: initialised memory of this length that stays mapped until the pool drops it. It cannot be shortened. The kernel
        // accesses only chunks that were put into the rings. The process that made it believes nothing that is in it, and a
        // program trusts that process as it trusts a NIC.
        let pool = unsafe { Pool::over(base, layout, Box::new(mapped))? };
        Ok(Chunks { pool, held: vec![0; layout.frames].into_boxed_slice(), chunk })
    }

    /// Give a frame to the kernel.
    #[inline]
    pub(crate) fn lend(&mut self, frame: Frame) -> xdp_desc {
        let raw = frame.into_raw();
        self.held[raw.index as usize] += 1;
        xdp_desc { addr: raw.offset as u64, len: raw.len, options: 0 }
    }

    /// Take one handle back. `None` for an address that the kernel was never given.
    #[inline]
    pub(crate) fn take_back(&mut self, address: u64, length: u32) -> Option<Frame> {
        let (index, start) = ((address >> self.chunk.ilog2()) as usize, address as u32 & (self.chunk - 1));
        let held = self.held.get_mut(index)?;
        if *held == 0 || start.saturating_add(length) > self.chunk {
            return None;
        }
        *held -= 1;
        // SAFETY: the kernel held a handle, and has given up its access by returning the address. The bytes are in the chunk.
        Some(unsafe { self.pool.from_raw_at(index as u32, start, length) })
    }
}

/// The socket is closed by now.
impl Drop for Chunks {
    fn drop(&mut self) {
        for (index, &held) in self.held.iter().enumerate() {
            for _ in 0..held {
                // SAFETY: the kernel held a handle, and accesses nothing after its socket was closed.
                drop(unsafe { self.pool.from_raw_at(index as u32, HEADROOM as u32, 0) });
            }
        }
    }
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

    #[test]
    fn memory_that_can_be_shortened_is_refused() {
        for seals in [SealFlag::empty(), SealFlag::F_SEAL_GROW, SealFlag::F_SEAL_SEAL] {
            assert!(matches!(Chunks::map(&memory(seals), &SHAPE, 1514), Err(GivenQueueError::NotSealed)), "{seals:?}");
        }
        let file = std::fs::File::open("/dev/zero").unwrap().into();
        assert!(matches!(Chunks::map(&file, &SHAPE, 1514), Err(GivenQueueError::NotSealed)));
        assert!(Chunks::map(&memory(SealFlag::F_SEAL_SHRINK), &SHAPE, 1514).is_ok());
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
                        let mapped = Chunks::map(&memory, &shape, max_frame).is_ok();
                        assert_eq!(mapped, is_right || is_other, "{shape:?}, {max_frame}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_kernel_gives_back_only_what_it_has() {
        let mut chunks = Chunks::map(&memory(SealFlag::F_SEAL_SHRINK), &SHAPE, 1514).unwrap();
        let at = chunks.pool.take().map(|frame| chunks.lend(frame).addr).unwrap();
        for (address, length) in [
            (at + 2048, 0),
            (at, 1793),
            (at, u32::MAX),
            (at & !2047 | 2047, 2),
            (u64::MAX, 0),
            (u64::MAX, u32::MAX),
            (1 << 32 | at, 0),
        ] {
            assert!(chunks.take_back(address, length).is_none(), "{address}, {length}");
        }
        assert!(chunks.take_back(at, 1792).is_some());
        assert!(chunks.take_back(at, 1792).is_none(), "once");
    }
}
