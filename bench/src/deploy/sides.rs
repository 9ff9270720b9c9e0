//! Two sides, for a command that opens transports itself: their hosts, and the names of their transports.

use am_afxdp::XdpOptions;
use am_transport::faulty::{Faults, Faulty};
use am_transport::{NameError, Transport, TransportName};

use crate::driver::Driver;
use crate::error::Error;
use crate::link::once_free;
use crate::named::{self, NamedLink, STAGE};
use crate::plan::{DriverOptions, Side};
use crate::session::LocatedLink;
use crate::watch::Watch;

use super::processes::{LocalTransport, TransportPair};
use super::veth::{INTERFACE, Pair, check_mtu};

/// How the name of an interface begins.
const XDP: &str = "xdp:";

/// Two sides, joined as long as this lives. The transport that is opened first is ready for the second.
pub(crate) struct Sides {
    /// The payload of a frame.
    pub(crate) mtu: u32,
    ends: TransportPair,
    /// Present if each side has its own host.
    pair: Option<Pair>,
}

impl Sides {
    /// Two hosts, with a cable between them.
    ///
    /// # Errors
    /// The cable cannot carry a node with this MTU, or something is missing.
    pub(crate) fn cabled(mtu: u32) -> Result<Sides, Error> {
        check_mtu(mtu, &[Driver::Am])?;
        let names = [(); 2].map(|()| format!("{XDP}{INTERFACE}"));
        Ok(Sides { mtu, ends: TransportPair::of(names), pair: Some(Pair::new(mtu)?) })
    }

    /// Two processes or threads, joined by this transport.
    ///
    /// # Errors
    /// As [`LocalTransport::ends`].
    pub(crate) fn joined(local_transport: LocalTransport, mtu: Option<u32>) -> Result<Sides, Error> {
        let mtu = mtu.unwrap_or(local_transport.mtu());
        Ok(Sides { mtu, ends: local_transport.ends(Some(mtu))?, pair: None })
    }

    /// On a simulated network.
    ///
    /// # Errors
    /// The name is not that of a simulated network.
    pub(crate) fn simulated(on: &str) -> Result<Sides, Error> {
        let near = NamedLink::new(Side::Near, "alpha", on, None)?;
        let mtu = near.here()?.mtu.unwrap_or_default();
        Ok(Sides { mtu, ends: TransportPair::of([(); 2].map(|()| on.to_owned())), pair: None })
    }

    /// The transport of a side, as named when it is opened for the nth time.
    pub(crate) fn on(&self, side: Side, nth: usize) -> String {
        self.ends.names[side as usize].replace(STAGE, &nth.to_string())
    }

    /// Whether XDP programs are between them.
    pub(crate) fn have_programs(&self) -> bool {
        self.ends.names[0].starts_with(XDP)
    }

    /// Run `work` on the host of that side.
    ///
    /// # Errors
    /// Its host cannot be entered.
    pub(crate) fn at<T: Send>(&self, side: Side, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        match &self.pair {
            Some(pair) => Ok(pair.hosts[side as usize].enter(work)?),
            None => Ok(work()),
        }
    }
}

/// The frames to lose on purpose.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    /// How many of a million.
    pub(crate) per_million: u32,
    /// The seed, unless the kernel draws.
    pub(crate) seed: u64,
}

/// Open the transport of this name. If it has an XDP program, that loses the frames, and its place is returned.
///
/// # Errors
/// Why it cannot be opened.
pub(crate) fn open(
    on: &str,
    how: DriverOptions,
    losses: Losses,
    watch: &Watch,
) -> Result<(Box<dyn Transport>, Option<&'static str>), Error> {
    if let Some(interface) = on.strip_prefix(XDP) {
        let (attach, lost_per_million) = (how.xdp.attach(), losses.per_million);
        let options = XdpOptions { attach, lost_per_million, ..XdpOptions::new(interface) };
        let xdp = once_free(watch, || Ok(am_afxdp::open(&options)?))?;
        let at = xdp.mode().attach.name();
        return Ok((Box::new(xdp), Some(at)));
    }
    let name: TransportName = on.parse().map_err(|error: NameError| Error::Usage(error.to_string()))?;
    let transport = named::open(&name, watch)?;
    if losses.per_million == 0 {
        return Ok((transport, None));
    }
    let faults = Faults { seed: losses.seed, drop: f64::from(losses.per_million) / 1e6, ..Faults::NONE };
    Ok((Box::new(Faulty::new(transport, faults)), None))
}
