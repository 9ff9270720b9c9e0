//! Why a device could not be opened, and what to do about it.

use std::io;

use crate::shim::ShimError;

/// Why a device could not be opened. Nothing of the attempt is left, but that DPDK may have been started.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no DPDK.
    #[error(transparent)]
    Shim(#[from] ShimError),
    /// DPDK did not start. It starts once a process, so this stays.
    #[error("DPDK does not start in this process: {why}")]
    Start {
        /// DPDK's words.
        why: String,
    },
    /// DPDK runs in another way than this device needs.
    #[error("DPDK was started without {wanted} in this process, which {device} needs: open {device} before the others")]
    Decided {
        /// The device.
        device: String,
        /// What it needs.
        wanted: &'static str,
    },
    /// Huge pages are required, and there are too few.
    #[error(
        "{free} MiB are free in huge pages, {needed} are needed: `sysctl -w vm.nr_hugepages=128` makes enough, \
         or leave out am.pages=huge"
    )]
    HugePages {
        /// MiB that are free.
        free: u64,
        /// MiB that are needed.
        needed: u64,
    },
    /// It is open already.
    #[error("{device} is open in this process already: give this one another number, or close that one")]
    Busy {
        /// The device.
        device: String,
    },
    /// A PCI device that DPDK does not get.
    #[error("DPDK does not get the device {device}: {advice}; {source}: {why}")]
    Pci {
        /// The device.
        device: String,
        /// What the system shows of it, and what to do.
        advice: String,
        /// DPDK's word.
        source: io::Error,
        /// And its words.
        why: String,
    },
    /// The driver refused.
    #[error("{doing} {device}: {source}; DPDK says: {why}")]
    Refused {
        /// What it was to do.
        doing: &'static str,
        /// The device.
        device: String,
        /// Its word.
        source: io::Error,
        /// And DPDK's words.
        why: String,
    },
    /// Too few frames for the device's queues.
    #[error(
        "{frames} frames are too few: the queues of {device} take {least} with some to send; say am.frames={least} or more"
    )]
    Frames {
        /// The device.
        device: String,
        /// As asked for.
        frames: u32,
        /// What is needed.
        least: u32,
    },
    /// DPDK has not so much memory.
    #[error(
        "{source}: {frames} frames of {room} bytes take {} MiB and more: {hint}, or take fewer with am.frames; DPDK says: {why}",
        (u64::from(*frames) * u64::from(*room)) >> 20
    )]
    Memory {
        /// How many.
        frames: u32,
        /// Of so many bytes.
        room: u32,
        /// What gives it more.
        hint: &'static str,
        /// DPDK's word.
        source: io::Error,
        /// And its words.
        why: String,
    },
    /// An address that is not one of a host.
    #[error(
        "{device} has the address {address}, which cannot be one host's: give it one, {device},mac=02:00:00:00:00:01"
    )]
    Address {
        /// The device.
        device: String,
        /// Its address.
        address: am_wire::Address,
    },
}
