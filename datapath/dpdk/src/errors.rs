//! Why a device could not be opened, and what to do about it.

use std::io;

use crate::shim::ShimError;

/// Why a device could not be opened. A failed attempt leaves nothing behind, except that DPDK may have been started.
#[derive(thiserror::Error)]
#[expect(missing_docs, reason = "the fields are the words of the text")]
pub enum DpdkOpenError {
    /// The shim, and so DPDK, cannot be loaded.
    #[error(transparent)]
    Shim(#[from] ShimError),
    /// DPDK did not start. It can be started once a process, so this error stays.
    #[error("DPDK does not start in this process: {why}")]
    Start { why: String },
    /// DPDK was started with other settings than this device needs.
    #[error("DPDK was started without {wanted} in this process, which {device} needs: open {device} before the others")]
    Decided { device: String, wanted: &'static str },
    /// Huge pages are required, and there are too few.
    #[error(
        "{free} MiB are free in huge pages, {needed} are needed: `sysctl -w vm.nr_hugepages=128` makes enough, \
         or leave out am.pages=huge"
    )]
    HugePages { free: u64, needed: u64 },
    /// The device is already open.
    #[error("{device} is open in this process already: give this one another number, or close that one")]
    Busy { device: String },
    /// DPDK cannot use this PCI device.
    #[error("DPDK cannot use the device {device}: {advice}; {source}: {why}")]
    Pci { device: String, advice: String, source: io::Error, why: String },
    /// The driver refused.
    #[error("{doing} {device}: {source}; DPDK says: {why}")]
    Refused { doing: &'static str, device: String, source: io::Error, why: String },
    /// Too few frames for the device's queues.
    #[error(
        "{frames} frames are too few: the queues of {device} take {least} with some to send; say am.frames={least} or more"
    )]
    Frames { device: String, frames: u32, least: u32 },
    /// DPDK has too little memory.
    #[error(
        "{source}: {frames} frames of {room} bytes take {} MiB and more: {hint}, or take fewer with am.frames; DPDK says: {why}",
        (u64::from(*frames) * u64::from(*room)) >> 20
    )]
    Memory { frames: u32, room: u32, hint: &'static str, source: io::Error, why: String },
    /// The device has an address that no single host can have.
    #[error("{device} has the address {address}, which is no host's: set one, as in {device},mac=02:00:00:00:00:01")]
    Address { device: String, address: am_wire::Address },
}

am_transport::debug_as_display!(DpdkOpenError);
