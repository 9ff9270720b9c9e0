//! Two sides on this machine: their hosts, the names of their transports, and how these are opened.

use std::time::Duration;

use am_afxdp::{Xdp, XdpOptions};
use am_api::transports::OpenError;
use am_transport::Transport;
use am_transport::faulty::{Faults, Faulty};

use crate::driver::Driver;
use crate::driver::am::facility;
use crate::error::Error;
use crate::link::{NamedLink, STAGE};
use crate::plan::{DriverOptions, Side};
use crate::rights;
use crate::session::{Link, Session, Setup};
use crate::topology::is_interface;
use crate::watch::{PEER_TIMEOUT, Watch};
use crate::wire::WireRate;

use super::child;
use super::processes::{LocalTransport, TransportPair};
use super::veth::{Pair, check_mtu, interfaces};

const XDP: &str = "xdp:";

/// Devices that cannot be opened until their other end is there.
const MEETING_DEVICES: [&str; 2] = ["dpdk:net_memif", "dpdk:net_virtio_user"];

/// The pause between two attempts to open one of them.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Two sides, joined as long as this lives.
pub(crate) struct Sides {
    /// The payload of a frame.
    pub(crate) mtu: u32,
    ends: TransportPair,
    /// Present if each side has its own host.
    pair: Option<Pair>,
}

impl Sides {
    /// Two hosts, with a cable between them that these drivers can use, and that has this rate.
    pub(crate) fn cabled(mtu: u32, rate: Option<WireRate>, drivers: &[Driver]) -> Result<Sides, Error> {
        rights::check(true, drivers)?;
        check_mtu(mtu, drivers)?;
        let pair = rate.map_or_else(|| Pair::new(mtu), |rate| Pair::limited(mtu, rate))?;
        Ok(Sides { mtu, ends: TransportPair::of(interfaces()), pair: Some(pair) })
    }

    /// Two processes or threads, joined by this transport.
    pub(crate) fn joined(local_transport: LocalTransport, mtu: Option<u32>) -> Result<Sides, Error> {
        let mtu = mtu.unwrap_or(local_transport.mtu());
        Ok(Sides { mtu, ends: local_transport.ends(Some(mtu))?, pair: None })
    }

    pub(crate) fn simulated(on: &str) -> Result<Sides, Error> {
        let near = NamedLink::new(Side::Near, "alpha", on, None)?;
        let mtu = near.here()?.mtu.unwrap_or_default();
        Ok(Sides { mtu, ends: TransportPair::of([(); 2].map(|()| on.to_owned())), pair: None })
    }

    /// The name of a side's transport when it is opened for the nth time.
    pub(crate) fn on(&self, side: Side, nth: usize) -> String {
        self.ends.names[side as usize].replace(STAGE, &nth.to_string())
    }

    pub(crate) fn have_xdp_programs(&self) -> bool {
        self.ends.names[0].starts_with(XDP)
    }

    /// Run `work` on the host of that side.
    pub(crate) fn at<T: Send>(&self, side: Side, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        match &self.pair {
            Some(pair) => Ok(pair.hosts[side as usize].enter(work)?),
            None => Ok(work()),
        }
    }

    /// Measure against a far side in a process of its own.
    pub(crate) fn measure(&self, setup: Setup<'_>) -> Result<Session, Error> {
        let [here, there] = &self.ends.names;
        let far = self.at(Side::Far, || child::Far::start(there, setup.cores, setup.watch))??;
        self.at(Side::Near, || far.measure(here, setup))?
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    /// Frames lost of a million.
    pub(crate) per_million: u32,
    /// The seed. An XDP program does not use it: the kernel draws.
    pub(crate) seed: u64,
}

/// Open the transport of this name. If it has an XDP program, the program loses the frames, and the name of its attach
/// mode is returned. Some devices cannot be opened until the other side is ready, so opening them is tried again.
pub(crate) fn open(
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
pub(crate) fn open_xdp(interface: &str, how: DriverOptions, lost_per_million: u32) -> Result<Xdp, Error> {
    let options = XdpOptions { attach: how.xdp.attach(), lost_per_million, ..XdpOptions::new(interface) };
    Ok(am_afxdp::open(&options)?)
}
