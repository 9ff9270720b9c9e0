//! The memory that we share with the kernel. It is registered once, and cut into chunks of one frame each
//! ([`crate::chunk_layout`] chooses their size).
//!
//! ```text
//!  chunk i, 2048 or 4096 bytes
//!  ├─ 256 bytes: the XDP program's ─┬─ the frame, from its destination address on ─┤
//!                                   └ address i·chunk + 256 in all four rings
//! ```
//!
//! [`crate::sg`] has the layout of frames that are longer than a chunk.

use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::ptr::{self, NonNull};
use std::slice;
use std::thread::sleep;
use std::time::{Duration, Instant};

use am_ring::own::above_low_numbers;
use am_ring::{Layout, Pool};
use am_transport::memory;
use libc::xdp_desc;
use xsk_rs::Umem;
use xsk_rs::config::{FrameSize, QueueSize, UmemConfig};

use crate::chunk_layout::ChunkLayout;
use crate::errors::XdpOptionsError;
use crate::errors::system_error;
use crate::options::{HugePages, Rings, XdpOptions};
use crate::{XdpOpenError, rights};

/// The kernel frees returned memory a moment later. A new allocation waits this long for it.
const FREE_TIMEOUT: Duration = Duration::from_millis(500);

/// The memory that is shared with the kernel.
pub(crate) struct Memory {
    /// Keeps it mapped.
    pub(crate) umem: Umem,
    /// Where it starts.
    base: NonNull<u8>,
    pub(crate) chunks: usize,
    pub(crate) layout: ChunkLayout,
    /// Whether it is in huge pages. An error: huge pages were wanted, and why there are none.
    pub(crate) huge: Result<bool, String>,
}

// SAFETY: the UMEM keeps the memory mapped, and memory is not bound to a thread.
unsafe impl Send for Memory {}

impl Memory {
    /// Map and register memory of this layout, with as many chunks as `count` returns. `freed`: whether memory was
    /// given back just before, and whether that was in huge pages.
    ///
    /// # Errors
    /// The kernel lacks memory, huge pages or AF_XDP, or the process lacks rights or locked memory.
    pub(crate) fn new(
        options: &XdpOptions,
        cut: ChunkLayout,
        count: ChunkCount,
        freed: Option<bool>,
    ) -> Result<Memory, XdpOpenError> {
        let request = MemoryRequest { cut, chunks: count(options, &cut)?, rings: options.rings, freed };
        let huge = if options.huge_pages == HugePages::Never { Ok(None) } else { request.map_huge().map(Some) };
        let ((umem, base), huge) = match huge {
            Ok(Some(made)) => (made, Ok(true)),
            Ok(None) => (request.map_normal()?, Ok(false)),
            Err(source) if options.huge_pages == HugePages::Required => return Err(request.huge_error(source)),
            Err(source) => (request.map_normal()?, Err(request.no_huge_pages_note(&source))),
        };
        Ok(Memory { umem, base, chunks: request.chunks as usize, layout: cut, huge })
    }

    /// A pool of frames of this layout, over the first chunks. It keeps the memory.
    ///
    /// # Errors
    /// [`XdpOpenError::Memory`].
    pub(crate) fn into_pool(self, layout: Layout) -> Result<Pool, XdpOpenError> {
        assert!(layout.frames * layout.stride <= self.chunks * self.layout.chunk, "more frames than memory");
        // SAFETY: memory of this length at least, zeroed by the system, that stays mapped as long as the UMEM, which the
        // pool keeps. Nothing else has the base. The kernel accesses only chunks whose addresses we put into its rings:
        // frames that `into_raw` gave up, and chunks behind the pool's.
        let pool = unsafe { Pool::over(self.base, layout, Box::new(self.umem)) };
        pool.map_err(|error| XdpOpenError::Memory { what: error.to_string() })
    }

    /// The bytes of a ring's entry.
    ///
    /// # Safety
    /// They are in the memory. The kernel does not hold their chunk, and nothing else accesses it meanwhile.
    #[inline]
    pub(crate) unsafe fn bytes(&mut self, entry: &xdp_desc) -> &mut [u8] {
        // SAFETY: the caller's promise. The system has zeroed the memory.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr().add(entry.addr as usize), entry.len as usize) }
    }
}

/// Computes the number of chunks.
pub(crate) type ChunkCount = fn(&XdpOptions, &ChunkLayout) -> Result<u32, XdpOptionsError>;

/// Registered memory, and where it starts.
type Made = (Umem, NonNull<u8>);

#[derive(Clone, Copy)]
struct MemoryRequest {
    cut: ChunkLayout,
    chunks: u32,
    rings: Rings,
    freed: Option<bool>,
}

impl MemoryRequest {
    fn bytes(&self) -> usize {
        self.cut.chunk * self.chunks as usize
    }

    fn map_huge(&self) -> io::Result<Made> {
        let page = huge_page_bytes();
        if !self.bytes().is_multiple_of(page) {
            // Unmapping a part of a huge page fails, so the memory would leak.
            return Err(io::Error::other(format!("{} bytes are no multiple of {page}", self.bytes())));
        }
        self.create(true)
    }

    fn map_normal(&self) -> Result<Made, XdpOpenError> {
        // Normal pages are taken from the memory of all programs, and the kernel locks them. So check first that enough
        // is free.
        memory::check(self.chunks as usize, self.cut.chunk)?;
        self.create(false).map_err(|error| self.umem_error(error))
    }

    fn create(&self, huge: bool) -> io::Result<Made> {
        let deadline = Instant::now() + FREE_TIMEOUT;
        loop {
            match self.create_now(huge) {
                Err(error) if self.is_being_freed(&error, huge) && Instant::now() < deadline => {
                    sleep(Duration::from_millis(1));
                }
                result => return result,
            }
        }
    }

    /// Whether the kernel may still be freeing the memory that is missing.
    fn is_being_freed(&self, error: &io::Error, huge: bool) -> bool {
        match error.raw_os_error() {
            Some(libc::ENOMEM) => huge && self.freed == Some(true),
            Some(libc::ENOBUFS) => self.freed.is_some(),
            _ => false,
        }
    }

    fn create_now(&self, huge: bool) -> io::Result<Made> {
        let chunks = NonZeroU32::new(self.chunks).ok_or(io::ErrorKind::InvalidInput)?;
        let config = UmemConfig::builder()
            .frame_size(FrameSize::new(self.cut.chunk as u32).map_err(io::Error::other)?)
            .fill_queue_size(queue_size(self.rings.fill)?)
            .comp_queue_size(queue_size(self.rings.completion)?)
            .build()
            .map_err(io::Error::other)?;
        // Libxdp makes the socket here, and closes it by its number.
        let made = above_low_numbers(|| Umem::new(config, chunks, huge)).map_err(|error| system_error(&error));
        let (umem, mut descriptors) = made?;
        // SAFETY: a descriptor of this UMEM, which is not in use yet.
        let frame = unsafe { umem.data_mut(&mut descriptors[0]).contents_mut().as_mut_ptr() };
        // A slice's pointer may reach only that slice. This memory comes from the system, not from Rust, so its address
        // alone reaches all of it.
        let base = NonNull::new(ptr::with_exposed_provenance_mut(frame.addr() - descriptors[0].addr()));
        Ok((umem, base.ok_or(io::ErrorKind::OutOfMemory)?))
    }

    fn umem_error(&self, source: io::Error) -> XdpOpenError {
        let refused = |source| XdpOpenError::system("registering memory for frames with the kernel", source);
        match source.raw_os_error() {
            Some(libc::EAFNOSUPPORT) => XdpOpenError::NoAfXdp,
            Some(libc::ENOBUFS) => XdpOpenError::LockedMemory { bytes: self.bytes() },
            Some(libc::ENOMEM) => XdpOpenError::Memory { what: format!("{} frames and their rings", self.chunks) },
            // The process may have the rights without effect, as in a user namespace.
            Some(libc::EPERM | libc::EACCES) => {
                rights::check().err().map_or_else(|| refused(source), XdpOpenError::Rights)
            }
            _ => refused(source),
        }
    }

    /// Only a lack of memory is one of huge pages.
    fn huge_error(&self, source: io::Error) -> XdpOpenError {
        match source.raw_os_error() {
            Some(libc::ENOMEM) | None => self.no_huge_pages(source),
            Some(_) => self.umem_error(source),
        }
    }

    fn no_huge_pages(&self, source: io::Error) -> XdpOpenError {
        XdpOpenError::HugePages { bytes: self.bytes(), pages: self.huge_pages(), source }
    }

    fn no_huge_pages_note(&self, source: &io::Error) -> String {
        format!("normal pages: no huge ones ({source}); `sysctl -w vm.nr_hugepages={}` makes enough", self.huge_pages())
    }

    fn huge_pages(&self) -> usize {
        self.bytes().div_ceil(huge_page_bytes())
    }
}

pub(crate) fn queue_size(entries: u32) -> io::Result<QueueSize> {
    QueueSize::new(entries).map_err(io::Error::other)
}

/// Bytes of a huge page; 2 MiB if unknown.
fn huge_page_bytes() -> usize {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    parse_huge_page(&text).unwrap_or(2 << 20)
}

fn parse_huge_page(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("Hugepagesize:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    (kib > 0).then_some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk_layout::Writer;
    use crate::tests::cut;

    fn shape(mtu: u32, chunks: u32) -> MemoryRequest {
        MemoryRequest { cut: cut(mtu, Writer::Kernel), chunks, rings: Rings::default(), freed: None }
    }

    #[test]
    fn the_size_of_huge_pages_is_read() {
        assert_eq!(parse_huge_page("MemTotal: 1 kB\nHugepagesize:       2048 kB\n"), Some(2 << 20));
        assert_eq!(parse_huge_page("Hugepagesize:          0 kB\n"), None);
        assert_eq!(parse_huge_page(""), None);
    }

    #[test]
    fn more_frames_than_there_is_memory_for_are_refused_before_it_is_taken() {
        let shape = shape(9000, 1 << 31);
        let error = shape.map_normal().err().unwrap();
        assert!(matches!(error, XdpOpenError::Frames(_)), "{error}");
        let (error, mib) = (error.to_string(), 1 << 23);
        assert!(error.contains(&format!("take {mib} MiB")) && error.ends_with("lower `frames=`"), "{error}");
    }

    #[test]
    fn refusals_of_memory_are_told_apart() {
        let shape = shape(1500, 8192);
        let explain = |number| shape.umem_error(io::Error::from_raw_os_error(number));
        assert!(matches!(explain(libc::EAFNOSUPPORT), XdpOpenError::NoAfXdp));
        assert!(matches!(explain(libc::ENOBUFS), XdpOpenError::LockedMemory { bytes: 16_777_216 }));
        assert!(matches!(explain(libc::ENOMEM), XdpOpenError::Memory { .. }));
        assert!(matches!(explain(libc::EINVAL), XdpOpenError::System { .. }));
        let error = shape.no_huge_pages(io::Error::from_raw_os_error(libc::ENOMEM)).to_string();
        assert!(error.contains("vm.nr_hugepages="), "{error}");
    }

    #[test]
    fn only_what_was_given_back_is_waited_for() {
        let waits = |freed, number, huge| {
            let shape = MemoryRequest { freed, ..shape(1500, 8192) };
            shape.is_being_freed(&io::Error::from_raw_os_error(number), huge)
        };
        assert!(waits(Some(true), libc::ENOMEM, true) && waits(Some(false), libc::ENOBUFS, false));
        assert!(!waits(None, libc::ENOBUFS, false), "nothing was");
        assert!(!waits(Some(false), libc::ENOMEM, true), "that was in normal pages");
        assert!(!waits(Some(true), libc::EINVAL, true));
    }
}
