//! The memory that the kernel and we share: registered once, cut into chunks of
//! one frame each.
//!
//! ```text
//!  chunk i, 2048 or 4096 bytes
//!  ├─ 256 bytes: the XDP program's ─┬─ the frame, from its destination address on ─┤
//!                                   └ address i·chunk + 256 in all four rings
//! ```

use std::fs;
use std::io;
use std::num::NonZeroU32;

use xsk_rs::config::{FrameSize, QueueSize, UmemConfig};
use xsk_rs::{FrameDesc, Umem};

use wire::frame::ETHERNET;

use crate::errors::system_error;
use crate::interface::Interface;
use crate::options::{HugePages, Options, Rings};
use crate::{OpenError, rights};

/// Bytes before a frame that the kernel keeps for XDP programs (`XDP_PACKET_HEADROOM`).
pub(crate) const HEADROOM: usize = 256;

/// The two sizes of a chunk that the kernel takes: half a page and a page.
const CHUNKS: [usize; 2] = [2048, 4096];

/// The largest MTU of an interface whose frames fit the memory shared with the kernel.
pub const MOST_MTU: u32 = (CHUNKS[1] - HEADROOM - ETHERNET) as u32;

/// The shared memory, and one descriptor per frame.
pub(crate) struct Memory {
    pub(crate) umem: Umem,
    /// By chunk, each at the place where a frame starts.
    pub(crate) descriptors: Vec<FrameDesc>,
    pub(crate) chunk: usize,
    /// Whether it is in huge pages, and if not though it should be, why.
    pub(crate) huge: Result<bool, String>,
}

impl Memory {
    /// Map and register memory for the frames of this interface.
    ///
    /// # Errors
    /// [`OpenError::Mtu`], and all that can be missing: memory, huge pages,
    /// locked memory, rights, AF_XDP itself.
    pub(crate) fn new(options: &Options, interface: &Interface) -> Result<Memory, OpenError> {
        let chunk = chunk_for(interface)?;
        let shape = Shape { chunk, frames: options.frames, rings: options.rings };
        if options.huge_pages == HugePages::Never {
            return shape.map(false, Ok(false));
        }
        match (shape.map_huge(), options.huge_pages) {
            (Ok(memory), _) => Ok(memory),
            (Err(source), HugePages::Required) => Err(shape.no_huge_pages(source)),
            (Err(source), _) => shape.map(false, Err(shape.no_huge_pages_note(&source))),
        }
    }
}

/// The smaller of the two chunks that holds the interface's frames.
fn chunk_for(interface: &Interface) -> Result<usize, OpenError> {
    let fits = |chunk: &usize| interface.max_frame() <= chunk - HEADROOM;
    CHUNKS.into_iter().find(fits).ok_or_else(|| OpenError::Mtu {
        interface: interface.name.clone(),
        mtu: interface.mtu,
        most: MOST_MTU,
    })
}

#[derive(Clone, Copy)]
struct Shape {
    chunk: usize,
    frames: u32,
    rings: Rings,
}

impl Shape {
    fn bytes(&self) -> usize {
        self.chunk * self.frames as usize
    }

    fn map_huge(&self) -> io::Result<Memory> {
        let page = huge_page_bytes();
        if !self.bytes().is_multiple_of(page) {
            // Unmapping part of a huge page fails, so the memory would be lost.
            return Err(io::Error::other(format!("{} bytes are no multiple of {page}", self.bytes())));
        }
        self.create(true).map(|(umem, descriptors)| self.memory(umem, descriptors, Ok(true)))
    }

    fn map(&self, use_huge: bool, huge: Result<bool, String>) -> Result<Memory, OpenError> {
        let made = self.create(use_huge).map_err(|error| self.explain(error))?;
        Ok(self.memory(made.0, made.1, huge))
    }

    fn memory(&self, umem: Umem, descriptors: Vec<FrameDesc>, huge: Result<bool, String>) -> Memory {
        Memory { umem, descriptors, chunk: self.chunk, huge }
    }

    fn create(&self, huge: bool) -> io::Result<(Umem, Vec<FrameDesc>)> {
        let frames = NonZeroU32::new(self.frames).ok_or(io::ErrorKind::InvalidInput)?;
        let config = UmemConfig::builder()
            .frame_size(FrameSize::new(self.chunk as u32).map_err(io::Error::other)?)
            .fill_queue_size(queue_size(self.rings.fill)?)
            .comp_queue_size(queue_size(self.rings.completion)?)
            .build()
            .map_err(io::Error::other)?;
        Umem::new(config, frames, huge).map_err(|error| system_error(&error))
    }

    fn explain(&self, source: io::Error) -> OpenError {
        match source.raw_os_error() {
            Some(libc::EAFNOSUPPORT) => OpenError::NoAfXdp,
            Some(libc::ENOBUFS) => OpenError::LockedMemory { bytes: self.bytes() },
            Some(libc::ENOMEM) => OpenError::Memory { what: format!("{} frames and their rings", self.frames) },
            // Rights may be there and not count, in a user namespace for one.
            Some(libc::EPERM | libc::EACCES) => rights::check().err().unwrap_or_else(|| doing(source)),
            _ => doing(source),
        }
    }

    fn no_huge_pages(&self, source: io::Error) -> OpenError {
        OpenError::HugePages { bytes: self.bytes(), pages: self.huge_pages(), source }
    }

    fn no_huge_pages_note(&self, source: &io::Error) -> String {
        format!("normal pages: no huge ones ({source}); `sysctl -w vm.nr_hugepages={}` makes enough", self.huge_pages())
    }

    fn huge_pages(&self) -> usize {
        self.bytes().div_ceil(huge_page_bytes())
    }
}

fn doing(source: io::Error) -> OpenError {
    OpenError::system("registering memory for frames with the kernel", source)
}

pub(crate) fn queue_size(entries: u32) -> io::Result<QueueSize> {
    QueueSize::new(entries).map_err(io::Error::other)
}

/// Bytes of a huge page, 2 MiB where the system does not say.
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
    use wire::Address;

    fn interface(mtu: u32) -> Interface {
        let (name, driver) = ("eth1".to_owned(), "veth".to_owned());
        Interface { name, index: 2, mtu, address: Address::default(), driver, queues: None }
    }

    #[test]
    fn the_chunk_holds_the_longest_frame() {
        assert_eq!(chunk_for(&interface(1500)).unwrap(), 2048);
        assert_eq!(chunk_for(&interface(1778)).unwrap(), 2048);
        assert_eq!(chunk_for(&interface(1779)).unwrap(), 4096);
        assert_eq!(chunk_for(&interface(3826)).unwrap(), 4096);
    }

    #[test]
    fn too_large_an_mtu_is_named_with_one_that_works() {
        let error = chunk_for(&interface(3827)).unwrap_err().to_string();
        assert!(error.contains("MTU of eth1 is 3827") && error.contains("dev eth1 mtu 3826"), "{error}");
    }

    #[test]
    fn the_size_of_huge_pages_is_read() {
        assert_eq!(parse_huge_page("MemTotal: 1 kB\nHugepagesize:       2048 kB\n"), Some(2 << 20));
        assert_eq!(parse_huge_page("Hugepagesize:          0 kB\n"), None);
        assert_eq!(parse_huge_page(""), None);
    }

    #[test]
    fn refusals_of_memory_are_told_apart() {
        let shape = Shape { chunk: 2048, frames: 8192, rings: Rings::default() };
        let explain = |number| shape.explain(io::Error::from_raw_os_error(number));
        assert!(matches!(explain(libc::EAFNOSUPPORT), OpenError::NoAfXdp));
        assert!(matches!(explain(libc::ENOBUFS), OpenError::LockedMemory { bytes: 16_777_216 }));
        assert!(matches!(explain(libc::ENOMEM), OpenError::Memory { .. }));
        assert!(matches!(explain(libc::EINVAL), OpenError::System { .. }));
        let error = shape.no_huge_pages(io::Error::from_raw_os_error(libc::ENOMEM)).to_string();
        assert!(error.contains("vm.nr_hugepages="), "{error}");
    }
}
