//! What to open, and how.

use am_bpf::AttachMode;
use am_wire::EtherType;

use crate::busy_poll::BusyPoll;
use crate::errors::{MOST_ENTRIES, OptionsError};
use crate::interface::Interface;

/// What to open, and how. [`Options::new`] has good values for all but the
/// interface's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The interface: `eth1`.
    pub interface: String,
    /// The receive queue to bind to; a socket sees the frames of this one only.
    /// What is not IP usually all arrives on queue 0.
    pub queue: u32,
    /// Whether the NIC is told to give our frames to that queue, where its driver takes rules (`ethtool -N`), until
    /// the transport is closed.
    pub steer: bool,
    /// The network's EtherTypes.
    pub ethertype: EtherType,
    /// Which of the frames that arrive are ours.
    pub program: Program,
    /// Where the XDP program runs.
    pub attach: Attach,
    /// How frames go between NIC and memory.
    pub copy: Copying,
    /// Entries of the four rings.
    pub rings: Rings,
    /// Frames in all: those waiting to be filled by the NIC, those being sent,
    /// and those that the program holds. Where a frame takes several chunks,
    /// chunks of memory in all, at most: there are fewer frames then, and
    /// no more memory.
    pub frames: u32,
    /// What frames longer than a page are to the kernel.
    pub multi_buffer: MultiBuffer,
    /// What kind of pages the frames are in.
    pub huge_pages: HugePages,
    /// Whether our own thread drives the NIC's queue, instead of its interrupts.
    pub busy_poll: Option<BusyPoll>,
    /// For tests of what a bad network does: of a million frames that arrive
    /// for us the XDP program loses so many, at random, and counts them
    /// (`xdp_lost_on_purpose`). [`Program::Steer`] only.
    pub lost_per_million: u32,
}

impl Options {
    /// Good values for this interface.
    pub fn new(interface: impl Into<String>) -> Self {
        Options {
            interface: interface.into(),
            queue: 0,
            steer: false,
            ethertype: EtherType::DEFAULT,
            program: Program::default(),
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

    /// Whether the numbers fit each other.
    ///
    /// # Errors
    /// The first that does not.
    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        let Rings { rx, tx, fill, completion } = self.rings;
        for (ring, entries) in [("rx", rx), ("tx", tx), ("fill", fill), ("completion", completion)] {
            if !entries.is_power_of_two() || entries > MOST_ENTRIES {
                return Err(OptionsError::Ring { ring, entries });
            }
        }
        let least = fill.saturating_mul(2);
        if self.frames < least {
            return Err(OptionsError::Frames { frames: self.frames, least });
        }
        if self.attach == Attach::Generic && self.copy == Copying::ZeroCopy {
            return Err(OptionsError::GenericCopies);
        }
        Ok(())
    }
}

/// Which of the frames that arrive are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Program {
    /// Active messages: steered by flow, see [`am_bpf::Steer`].
    #[default]
    Steer,
    /// Every frame of the hidden EtherType, whatever is in it: bare AF_XDP, to
    /// measure against. See [`am_bpf::Raw`].
    Raw,
}

/// Where the XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Attach {
    /// Where it is fastest: in the driver, but for a veth of one queue, whose
    /// driver mode copies once more and hands frames over later than the
    /// generic path (docs/decisions/0012).
    #[default]
    Auto,
    /// In the driver, or not at all.
    Native,
    /// In the driver; where it has no XDP, in the kernel's generic receive
    /// path, which costs about as much as not using XDP.
    NativeOrGeneric,
    /// In the generic receive path.
    Generic,
}

impl Attach {
    /// Where the program is attached first.
    pub(crate) fn first(self, interface: &Interface) -> AttachMode {
        match self {
            Attach::Auto if interface.driver == "veth" && interface.queues == Some(1) => AttachMode::Generic,
            Attach::Generic => AttachMode::Generic,
            Attach::Auto | Attach::Native | Attach::NativeOrGeneric => AttachMode::Native,
        }
    }
}

/// How frames go between NIC and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Copying {
    /// Without a copy where the driver can, otherwise with one.
    #[default]
    Auto,
    /// The NIC reads and writes our frames itself, or it is an error.
    ZeroCopy,
    /// The kernel copies.
    Copy,
}

/// Entries of the four rings, each a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// Arrived frames, waiting for us.
    pub rx: u32,
    /// Frames to send, waiting for the kernel.
    pub tx: u32,
    /// Empty frames for arrivals.
    pub fill: u32,
    /// Sent frames, waiting for us.
    pub completion: u32,
}

impl Default for Rings {
    fn default() -> Self {
        Rings { rx: 2048, tx: 2048, fill: 2048, completion: 2048 }
    }
}

/// What frames are that do not fit a page, which is the longest chunk of
/// memory that the kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MultiBuffer {
    /// Several chunks each, where the MTU is so large and the kernel can do it
    /// (`XDP_USE_SG`, Linux 6.6). Otherwise as with `Never`.
    #[default]
    IfNeeded,
    /// Not sent, nor received: ours are shorter, whatever the MTU is.
    Never,
}

/// What kind of pages the frames are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HugePages {
    /// Huge ones if the system has some free, otherwise normal ones.
    #[default]
    IfAvailable,
    /// Normal ones.
    Never,
    /// Huge ones, or it is an error.
    Required,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_fit_each_other() {
        assert_eq!(Options::new("eth1").check(), Ok(()));
    }

    #[test]
    fn rings_are_powers_of_two() {
        for entries in [0, 3, 2 * MOST_ENTRIES] {
            let mut options = Options::new("eth1");
            options.rings.tx = entries;
            assert_eq!(options.check(), Err(OptionsError::Ring { ring: "tx", entries }));
        }
    }

    #[test]
    fn something_is_left_to_send_with() {
        let mut options = Options::new("eth1");
        options.frames = 4095;
        assert_eq!(options.check(), Err(OptionsError::Frames { frames: 4095, least: 4096 }));
        options.rings.fill = 1024;
        assert_eq!(options.check(), Ok(()));
    }

    #[test]
    fn zero_copy_is_not_asked_of_the_generic_path() {
        for (attach, copy, is_refused) in [
            (Attach::Generic, Copying::ZeroCopy, true),
            (Attach::Generic, Copying::Auto, false),
            (Attach::Generic, Copying::Copy, false),
            (Attach::NativeOrGeneric, Copying::ZeroCopy, false),
            (Attach::Auto, Copying::ZeroCopy, false),
        ] {
            let found = Options { attach, copy, ..Options::new("eth1") }.check();
            let wanted = if is_refused { Err(OptionsError::GenericCopies) } else { Ok(()) };
            assert_eq!(found, wanted, "{attach:?}, {copy:?}");
        }
    }
}
