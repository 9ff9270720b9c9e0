//! The settings of the transport.

use am_bpf::AttachMode;
use am_wire::EtherType;

use crate::busy_poll::BusyPoll;
use crate::errors::{MAX_RING_ENTRIES, XdpOptionsError};
use crate::interface::Interface;

/// The settings of the transport. [`XdpOptions::new`] has good values for all but the interface's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpOptions {
    /// The interface: `eth1`.
    pub interface: String,
    /// The receive queue to bind to. A socket receives only the frames of this queue. Frames that are not IP usually
    /// all arrive on queue 0.
    pub queue: u32,
    /// Whether to install rules by which the NIC steers our frames to that queue, where its driver supports them
    /// (`ethtool -N`). They are removed when the transport is closed.
    pub steer: bool,
    /// The network's EtherTypes.
    pub ethertype: EtherType,
    /// Where the XDP program runs.
    pub attach: Attach,
    /// How frames move between NIC and memory.
    pub copy: Copying,
    /// Entries of the four rings.
    pub rings: Rings,
    /// The number of frames: those that the NIC fills, those being sent, and those that the program holds. Where a
    /// frame takes several chunks, the number of chunks: then there are fewer frames in as much memory.
    pub frames: u32,
    /// Whether frames may be longer than a page.
    pub multi_buffer: MultiBuffer,
    /// The pages of the frames' memory.
    pub huge_pages: HugePages,
    /// Whether our own thread polls the NIC's queue, instead of its interrupts.
    pub busy_poll: Option<BusyPoll>,
    /// For tests of a bad network: of each million frames that arrive for us, the XDP program drops this many at
    /// random, and counts them (`xdp_lost_on_purpose`).
    pub lost_per_million: u32,
}

impl XdpOptions {
    /// Default settings for this interface.
    pub fn new(interface: impl Into<String>) -> Self {
        XdpOptions {
            interface: interface.into(),
            queue: 0,
            steer: false,
            ethertype: EtherType::DEFAULT,
            attach: Attach::default(),
            copy: Copying::default(),
            rings: Rings::default(),
            frames: 8192,
            multi_buffer: MultiBuffer::default(),
            huge_pages: HugePages::default(),
            busy_poll: None,
            lost_per_million: 0,
        }
    }

    /// Check that the settings are consistent.
    ///
    /// # Errors
    /// The first contradiction.
    pub(crate) fn check(&self) -> Result<(), XdpOptionsError> {
        let Rings { rx, tx, fill, completion } = self.rings;
        for (ring, entries) in [("rx", rx), ("tx", tx), ("fill", fill), ("completion", completion)] {
            if !entries.is_power_of_two() || entries > MAX_RING_ENTRIES {
                return Err(XdpOptionsError::Ring { ring, entries });
            }
        }
        let least = fill.saturating_mul(2);
        if self.frames < least {
            return Err(XdpOptionsError::Frames { frames: self.frames, least });
        }
        if self.attach == Attach::Generic && self.copy == Copying::ZeroCopy {
            return Err(XdpOptionsError::GenericCopies);
        }
        Ok(())
    }
}

/// Where the XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Attach {
    /// Where it is fastest. That is the driver, except on a veth of one queue: its driver mode copies once more and
    /// delivers frames later than the generic path (docs/decisions/0012).
    #[default]
    Auto,
    /// In the driver; an error where it has no XDP.
    Native,
    /// In the kernel's generic receive path. That path costs about as much as not using XDP.
    Generic,
}

impl Attach {
    pub(crate) fn mode(self, interface: &Interface) -> AttachMode {
        match self {
            Attach::Auto if interface.driver == "veth" && interface.queues == Some(1) => AttachMode::Generic,
            Attach::Generic => AttachMode::Generic,
            Attach::Auto | Attach::Native => AttachMode::Native,
        }
    }
}

/// How frames move between NIC and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Copying {
    /// Zero-copy where the driver supports it, otherwise copy.
    #[default]
    Auto,
    /// Zero-copy: the NIC reads and writes our frames itself. An error where it cannot.
    ZeroCopy,
    /// Copy mode: the kernel copies each frame.
    Copy,
}

/// Entries of the four rings, each a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// Received frames, waiting for us.
    pub rx: u32,
    /// Frames to send, waiting for the kernel.
    pub tx: u32,
    /// Empty frames, to receive into.
    pub fill: u32,
    /// Sent frames, waiting for us.
    pub completion: u32,
}

impl Default for Rings {
    fn default() -> Self {
        Rings { rx: 2048, tx: 2048, fill: 2048, completion: 2048 }
    }
}

/// Whether frames may be longer than a page, the longest chunk that the kernel accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MultiBuffer {
    /// Such a frame takes several chunks, if the MTU allows it and the kernel supports it (`XDP_USE_SG`, Linux 6.6).
    /// Otherwise as `Never`.
    #[default]
    IfNeeded,
    /// Frames are never longer than a page, whatever the MTU is.
    Never,
}

/// The pages of the frames' memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HugePages {
    /// Huge pages if the system has enough free, otherwise normal ones.
    #[default]
    IfAvailable,
    /// Normal pages.
    Never,
    /// Huge pages; an error if there are too few.
    Required,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_fit_each_other() {
        assert_eq!(XdpOptions::new("eth1").check(), Ok(()));
    }

    #[test]
    fn rings_are_powers_of_two() {
        for entries in [0, 3, 2 * MAX_RING_ENTRIES] {
            let mut options = XdpOptions::new("eth1");
            options.rings.tx = entries;
            assert_eq!(options.check(), Err(XdpOptionsError::Ring { ring: "tx", entries }));
        }
    }

    #[test]
    fn something_is_left_to_send_with() {
        let mut options = XdpOptions::new("eth1");
        options.frames = 4095;
        assert_eq!(options.check(), Err(XdpOptionsError::Frames { frames: 4095, least: 4096 }));
        options.rings.fill = 1024;
        assert_eq!(options.check(), Ok(()));
    }

    #[test]
    fn zero_copy_is_not_asked_of_the_generic_path() {
        for (attach, copy, is_refused) in [
            (Attach::Generic, Copying::ZeroCopy, true),
            (Attach::Generic, Copying::Auto, false),
            (Attach::Generic, Copying::Copy, false),
            (Attach::Auto, Copying::ZeroCopy, false),
        ] {
            let found = XdpOptions { attach, copy, ..XdpOptions::new("eth1") }.check();
            let wanted = if is_refused { Err(XdpOptionsError::GenericCopies) } else { Ok(()) };
            assert_eq!(found, wanted, "{attach:?}, {copy:?}");
        }
    }
}
