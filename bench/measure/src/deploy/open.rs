//! Opens a transport that is named.

use std::time::Duration;

use am_afxdp::{Xdp, XdpOptions};
use am_api::transports::OpenError;
use am_transport::Transport;

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

/// Open the transport of this name. If it has an XDP program, the name of its attach mode is returned. Some devices cannot
/// be opened until the other side is ready, so opening them is tried again.
pub fn open(on: &str, how: DriverOptions, watch: &Watch) -> Result<(Box<dyn Transport>, Option<&'static str>), Error> {
    if let Some(interface) = on.strip_prefix(XDP).filter(|_| is_interface(on)) {
        let xdp = open_xdp(interface, how)?;
        let attach = xdp.mode().attach.name();
        return Ok((Box::new(xdp), Some(attach)));
    }
    let bad =
        |error: OpenError| if error.is_about_the_name() { Error::Usage(error.to_string()) } else { facility(error) };
    let needs_other_end = MEETING_DEVICES.iter().any(|device| on.starts_with(device));
    let may_pass = |error: &Error| needs_other_end && matches!(error, Error::Facility(_));
    let open = || am_api::transports::open(on).map_err(bad);
    Ok((watch.retry(PEER_TIMEOUT, RETRY_INTERVAL, may_pass, open)?, None))
}

/// Open AF_XDP on this interface.
pub(crate) fn open_xdp(interface: &str, how: DriverOptions) -> Result<Xdp, Error> {
    let options = XdpOptions { attach: how.xdp.attach(), ..XdpOptions::new(interface) };
    Ok(am_afxdp::open(&options)?)
}
