//! The mode that the kernel granted: zero-copy or copy, native or generic, huge pages or not.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use am_bpf::AttachMode;

use crate::bind::Bound;
use crate::chunk_layout::ChunkLayout;
use crate::interface::Interface;
use crate::umem::Memory;
use crate::{XdpOpenError, sockopt, vlan};

/// How frames move between NIC and memory, as the kernel granted it.
///
/// Its text is driver and mode: `veth copy`, `mlx5_core zero-copy`. [`Mode::attach`] says where the XDP program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The driver's name.
    pub driver: String,
    /// The NIC reads and writes our frames itself, without a copy.
    pub zero_copy: bool,
    /// Where the XDP program runs.
    pub attach: AttachMode,
    /// A frame may take several chunks of memory.
    pub multi_buffer: bool,
    /// The frames are in huge pages.
    pub huge_pages: bool,
    /// Our own thread drives the NIC's queue.
    pub busy_poll: bool,
    /// Attempts that failed, and other facts that the user should know: a sentence each.
    pub notes: Vec<String>,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.driver, if self.zero_copy { "zero-copy" } else { "copy" })
    }
}

impl Mode {
    /// The mode of a bound socket, before socket options and the program are set. `tried` lists failed attempts.
    pub(crate) fn new(
        bound: &Bound,
        interface: &Interface,
        memory: &Memory,
        tried: Vec<String>,
    ) -> Result<Mode, XdpOpenError> {
        let huge = memory.huge.clone();
        let zero_copy = is_zero_copy(bound.fd()).map_err(|error| XdpOpenError::system("asking for the mode", error))?;
        let driver = interface.driver.clone();
        let notes = tried.into_iter().chain(huge.clone().err()).chain(shorter_frames_note(interface, &memory.layout));
        let notes = notes.chain(vlan::note(interface)).collect();
        let huge_pages = huge.unwrap_or(false);
        Ok(Mode {
            driver,
            zero_copy,
            attach: AttachMode::Native,
            multi_buffer: !memory.layout.is_single_chunk(),
            huge_pages,
            busy_poll: false,
            notes,
        })
    }
}

/// A note where frames are shorter than the MTU allows.
fn shorter_frames_note(interface: &Interface, cut: &ChunkLayout) -> Option<String> {
    let (longest, mtu) = (cut.max_frame, interface.mtu);
    (longest < interface.max_frame()).then(|| {
        format!(
            "frames of at most {longest} bytes, less than the MTU of {mtu} allows: longer ones take several chunks, which \
             need Linux 6.6, a driver that supports them, and the setting"
        )
    })
}

/// Whether a bound socket is in zero-copy mode.
fn is_zero_copy(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let options = sockopt::get(socket, libc::SOL_XDP, libc::XDP_OPTIONS)?;
    Ok(options as u32 & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_driver_and_mode() {
        let mode = Mode {
            driver: "veth".to_owned(),
            zero_copy: false,
            attach: AttachMode::Native,
            multi_buffer: false,
            huge_pages: false,
            busy_poll: false,
            notes: Vec::new(),
        };
        assert_eq!(mode.to_string(), "veth copy");
        let mode = Mode { driver: "mlx5_core".to_owned(), zero_copy: true, ..mode };
        assert_eq!(mode.to_string(), "mlx5_core zero-copy");
    }
}
