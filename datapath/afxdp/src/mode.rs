//! What the user asks first: am I really in zero-copy mode?

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use am_bpf::AttachMode;

use crate::bind::Bound;
use crate::cut::Cut;
use crate::interface::Interface;
use crate::umem::Memory;
use crate::{OpenError, sockopt, vlan};

/// How frames go between NIC and memory, as the kernel says, not as we asked.
///
/// Its text is driver and mode: `veth copy`, `mlx5_core zero-copy`. Where the XDP
/// program runs is told apart from that: [`Mode::attach`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The driver's name.
    pub driver: String,
    /// The NIC reads and writes our frames itself.
    pub zero_copy: bool,
    /// Where the XDP program runs.
    pub attach: AttachMode,
    /// Frames may be longer than a chunk of memory, and are in several then.
    pub multi_buffer: bool,
    /// The frames are in huge pages.
    pub huge_pages: bool,
    /// Our own thread drives the NIC's queue.
    pub busy_poll: bool,
    /// What was tried and did not work, or is to be known, and why: a sentence each.
    pub notes: Vec<String>,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.driver, if self.zero_copy { "zero-copy" } else { "copy" })
    }
}

impl Mode {
    /// What the kernel gave, before options and program are added, after what was tried in vain.
    pub(crate) fn of(
        bound: &Bound,
        interface: &Interface,
        memory: &Memory,
        tried: Vec<String>,
    ) -> Result<Mode, OpenError> {
        let huge = memory.huge.clone();
        let zero_copy = is_zero_copy(bound.fd()).map_err(|error| OpenError::system("asking for the mode", error))?;
        let driver = interface.driver.clone();
        let notes = tried.into_iter().chain(huge.clone().err()).chain(shorter(interface, &memory.cut));
        let notes = notes.chain(vlan::note(interface)).collect();
        let huge_pages = huge.unwrap_or(false);
        Ok(Mode {
            driver,
            zero_copy,
            attach: AttachMode::Native,
            multi_buffer: !memory.cut.is_one_each(),
            huge_pages,
            busy_poll: false,
            notes,
        })
    }
}

/// Frames are shorter than they could be.
fn shorter(interface: &Interface, cut: &Cut) -> Option<String> {
    let (longest, mtu) = (cut.longest, interface.mtu);
    (longest < interface.max_frame()).then(|| {
        format!(
            "frames of at most {longest} bytes, not as the MTU of {mtu} allows: longer ones take several chunks, which \
             the kernel (6.6 or newer) or the driver does not do, or was not asked to"
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
