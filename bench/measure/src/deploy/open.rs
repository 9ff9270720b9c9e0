//! Opens a transport that is named.

use std::time::Duration;

use am_afxdp::{Xdp, XdpOptions};
use am_api::transports::OpenError;
use am_transport::Transport;
use am_transport::faulty::{Faults, Faulty};

use crate::drivers::am::facility;
use crate::error::Error;
use crate::plan::DriverOptions;
use crate::watch::{PEER_TIMEOUT, Watch};

pub(super) const XDP: &str = "xdp:";

/// Devices that cannot be opened until their other end is there.
const MEETING_DEVICES: [&str; 2] = ["dpdk:net_memif", "dpdk:net_virtio_user"];

/// The pause between two attempts to open one of them.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Whether this names one interface and nothing else.
pub fn is_interface(on: &str) -> bool {
    on.starts_with(XDP) && am_api::transports::split(on).len() == 1
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Losses {
    /// Frames lost of a million.
    pub per_million: u32,
    /// The seed. An XDP program does not use it: the kernel draws.
    pub seed: u64,
}

/// Open the transport of this name. If it has an XDP program, the program loses the frames, and the name of its attach
/// mode is returned. Some devices cannot be opened until the other side is ready, so opening them is tried again.
pub fn open(
    on: &str,
    how: DriverOptions,
    losses: Losses,
    watch: &Watch,
) -> Result<(Box<dyn Transport>, Option<&'static str>), Error> {
    if let Some(interface) = on.strip_prefix(XDP).filter(|_| is_interface(on)) {
        let xdp = open_xdp(interface, how, losses.per_million)?;
        let attach = xdp.mode().attach.name();
        return Ok((Box::new(xdp), Some(attach)));
    }
    let bad =
        |error: OpenError| if error.is_about_the_name() { Error::Usage(error.to_string()) } else { facility(error) };
    let needs_other_end = MEETING_DEVICES.iter().any(|device| on.starts_with(device));
    let may_pass = |error: &Error| needs_other_end && matches!(error, Error::Facility(_));
    let open = || am_api::transports::open(on).map_err(bad);
    let transport = watch.retry(PEER_TIMEOUT, RETRY_INTERVAL, may_pass, open)?;
    if losses.per_million == 0 {
        return Ok((transport, None));
    }
    let faults = Faults { seed: losses.seed, drop: f64::from(losses.per_million) / 1e6, ..Faults::NONE };
    Ok((Box::new(Faulty::new(transport, faults)), None))
}

/// Open AF_XDP on this interface. Its XDP program loses frames at this rate.
pub fn open_xdp(interface: &str, how: DriverOptions, lost_per_million: u32) -> Result<Xdp, Error> {
    let options = XdpOptions { attach: how.xdp.attach(), lost_per_million, ..XdpOptions::new(interface) };
    Ok(am_afxdp::open(&options)?)
}
