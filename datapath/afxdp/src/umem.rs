//! The memory that the kernel and we share: registered once, cut into chunks of
//! one frame each.
//!
//! ```text
//!  chunk i, 2048 or 4096 bytes
//!  ├─ 256 bytes: the XDP program's ─┬─ the frame, from its destination address on ─┤
//!                                   └ address i·chunk + 256 in all four rings
//! ```
//!
//! How frames lie that are longer than a chunk is in [`crate::sg`].

use std::fs;
use std::io;
use std::num::NonZeroU32;

use transport::memory;
use wire::frame::ETHERNET;
use xsk_rs::config::{FrameSize, QueueSize, UmemConfig};
use xsk_rs::{FrameDesc, Umem};

use crate::errors::system_error;
use crate::interface::Interface;
use crate::options::{HugePages, MultiBuffer, Options, OptionsError, Rings};
use crate::{OpenError, rights};

/// Bytes before a frame that the kernel keeps for XDP programs (`XDP_PACKET_HEADROOM`).
pub(crate) const HEADROOM: usize = 256;

/// The two sizes of a chunk that the kernel takes: half a page and a page.
const CHUNKS: [usize; 2] = [2048, 4096];

/// The largest MTU of an interface whose frames fit a chunk each.
pub const ONE_CHUNK_MTU: u32 = (CHUNKS[1] - HEADROOM - ETHERNET) as u32;

/// The largest MTU of all, with frames of several chunks: more than a packet of
/// IPv4 is nobody's, and 17 pages the most that a packet of the kernel's has.
pub const MOST_MTU: u32 = 65535;

/// How the frames of an interface lie in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Bytes of a chunk.
    pub(crate) chunk: usize,
    /// Bytes of the longest frame.
    pub(crate) longest: usize,
}

impl Cut {
    /// # Errors
    /// [`OpenError::Mtu`].
    fn new(options: &Options, interface: &Interface) -> Result<Cut, OpenError> {
        let Interface { name, mtu, .. } = interface.clone();
        if mtu > MOST_MTU {
            return Err(OpenError::Mtu { interface: name, mtu, most: MOST_MTU });
        }
        let longest = interface.max_frame();
        let fits = |chunk: &usize| longest <= chunk - HEADROOM;
        if let Some(chunk) = CHUNKS.into_iter().find(fits) {
            return Ok(Cut { chunk, longest });
        }
        let [_, chunk] = CHUNKS;
        let longest = if options.multi_buffer == MultiBuffer::Never { chunk - HEADROOM } else { longest };
        Ok(Cut { chunk, longest })
    }

    /// Each frame lies in a chunk of its own.
    pub(crate) fn is_one_each(&self) -> bool {
        self.longest <= self.chunk - HEADROOM
    }

    /// Consecutive chunks that hold the longest frame as a whole.
    pub(crate) fn chunks(&self) -> usize {
        (HEADROOM + self.longest).div_ceil(self.chunk)
    }

    /// Chunks that the kernel fills with the longest frame that arrives: each
    /// has its own headroom.
    pub(crate) fn landings(&self) -> usize {
        self.longest.div_ceil(self.chunk - HEADROOM)
    }
}

/// The shared memory, and one descriptor per frame.
pub(crate) struct Memory {
    pub(crate) umem: Umem,
    /// By chunk, each at the place where a frame starts.
    pub(crate) descriptors: Vec<FrameDesc>,
    pub(crate) cut: Cut,
    /// Whether it is in huge pages, and if not though it should be, why.
    pub(crate) huge: Result<bool, String>,
}

impl Memory {
    /// Map and register memory for the frames of this interface, as many
    /// chunks as `count` says.
    ///
    /// # Errors
    /// [`OpenError::Mtu`], and all that can be missing: memory, huge pages,
    /// locked memory, rights, AF_XDP itself.
    pub(crate) fn new(options: &Options, interface: &Interface, count: Count) -> Result<Memory, OpenError> {
        let cut = Cut::new(options, interface)?;
        let shape = Shape { cut, chunks: count(options, &cut)?, rings: options.rings };
        if options.huge_pages == HugePages::Never {
            return shape.map_normal(Ok(false));
        }
        match (shape.map_huge(), options.huge_pages) {
            (Ok(memory), _) => Ok(memory),
            (Err(source), HugePages::Required) => Err(shape.no_huge_pages(source)),
            (Err(source), _) => shape.map_normal(Err(shape.no_huge_pages_note(&source))),
        }
    }
}

/// How many chunks it takes.
pub(crate) type Count = fn(&Options, &Cut) -> Result<u32, OptionsError>;

#[derive(Clone, Copy)]
struct Shape {
    cut: Cut,
    chunks: u32,
    rings: Rings,
}

impl Shape {
    fn bytes(&self) -> usize {
        self.cut.chunk * self.chunks as usize
    }

    fn map_huge(&self) -> io::Result<Memory> {
        let page = huge_page_bytes();
        if !self.bytes().is_multiple_of(page) {
            // Unmapping part of a huge page fails, so the memory would be lost.
            return Err(io::Error::other(format!("{} bytes are no multiple of {page}", self.bytes())));
        }
        self.create(true).map(|(umem, descriptors)| self.memory(umem, descriptors, Ok(true)))
    }

    fn map_normal(&self, huge: Result<bool, String>) -> Result<Memory, OpenError> {
        // Without huge ones that are kept free for this, it is what all others live on, and the kernel holds it fast.
        memory::check(self.chunks as usize, self.cut.chunk)?;
        let made = self.create(false).map_err(|error| self.explain(error))?;
        Ok(self.memory(made.0, made.1, huge))
    }

    fn memory(&self, umem: Umem, descriptors: Vec<FrameDesc>, huge: Result<bool, String>) -> Memory {
        Memory { umem, descriptors, cut: self.cut, huge }
    }

    fn create(&self, huge: bool) -> io::Result<(Umem, Vec<FrameDesc>)> {
        let chunks = NonZeroU32::new(self.chunks).ok_or(io::ErrorKind::InvalidInput)?;
        let config = UmemConfig::builder()
            .frame_size(FrameSize::new(self.cut.chunk as u32).map_err(io::Error::other)?)
            .fill_queue_size(queue_size(self.rings.fill)?)
            .comp_queue_size(queue_size(self.rings.completion)?)
            .build()
            .map_err(io::Error::other)?;
        Umem::new(config, chunks, huge).map_err(|error| system_error(&error))
    }

    fn explain(&self, source: io::Error) -> OpenError {
        match source.raw_os_error() {
            Some(libc::EAFNOSUPPORT) => OpenError::NoAfXdp,
            Some(libc::ENOBUFS) => OpenError::LockedMemory { bytes: self.bytes() },
            Some(libc::ENOMEM) => OpenError::Memory { what: format!("{} frames and their rings", self.chunks) },
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

    fn cut(mtu: u32) -> Result<Cut, OpenError> {
        Cut::new(&Options::new("eth1"), &interface(mtu))
    }

    #[test]
    fn the_chunk_holds_the_longest_frame() {
        for (mtu, chunk) in [(1500, 2048), (1778, 2048), (1779, 4096), (ONE_CHUNK_MTU, 4096)] {
            let cut = cut(mtu).unwrap();
            assert_eq!((cut.chunk, cut.is_one_each(), cut.chunks(), cut.landings()), (chunk, true, 1, 1), "{mtu}");
        }
    }

    #[test]
    fn what_no_chunk_holds_lies_in_several() {
        for (mtu, chunks, landings) in [(3827, 2, 2), (9000, 3, 3), (65000, 16, 17), (MOST_MTU, 17, 18)] {
            let cut = cut(mtu).unwrap();
            assert_eq!((cut.is_one_each(), cut.chunks(), cut.landings()), (false, chunks, landings), "{mtu}");
        }
        let never = Options { multi_buffer: MultiBuffer::Never, ..Options::new("eth1") };
        assert_eq!(Cut::new(&never, &interface(9000)).unwrap(), cut(ONE_CHUNK_MTU).unwrap());
    }

    #[test]
    fn too_large_an_mtu_is_named_with_one_that_works() {
        let error = cut(65536).unwrap_err().to_string();
        assert!(error.contains("MTU of eth1 is 65536") && error.contains("dev eth1 mtu 65535"), "{error}");
    }

    #[test]
    fn the_size_of_huge_pages_is_read() {
        assert_eq!(parse_huge_page("MemTotal: 1 kB\nHugepagesize:       2048 kB\n"), Some(2 << 20));
        assert_eq!(parse_huge_page("Hugepagesize:          0 kB\n"), None);
        assert_eq!(parse_huge_page(""), None);
    }

    #[test]
    fn more_frames_than_there_is_memory_for_are_refused_before_it_is_taken() {
        let shape = Shape { cut: cut(9000).unwrap(), chunks: 1 << 31, rings: Rings::default() };
        let error = shape.map_normal(Ok(false)).err().unwrap();
        assert!(matches!(error, OpenError::Frames(_)), "{error}");
        let (error, mib) = (error.to_string(), 1 << 23);
        assert!(error.contains(&format!("take {mib} MiB")) && error.ends_with("lower `frames=`"), "{error}");
    }

    #[test]
    fn refusals_of_memory_are_told_apart() {
        let shape = Shape { cut: cut(1500).unwrap(), chunks: 8192, rings: Rings::default() };
        let explain = |number| shape.explain(io::Error::from_raw_os_error(number));
        assert!(matches!(explain(libc::EAFNOSUPPORT), OpenError::NoAfXdp));
        assert!(matches!(explain(libc::ENOBUFS), OpenError::LockedMemory { bytes: 16_777_216 }));
        assert!(matches!(explain(libc::ENOMEM), OpenError::Memory { .. }));
        assert!(matches!(explain(libc::EINVAL), OpenError::System { .. }));
        let error = shape.no_huge_pages(io::Error::from_raw_os_error(libc::ENOMEM)).to_string();
        assert!(error.contains("vm.nr_hugepages="), "{error}");
    }
}
