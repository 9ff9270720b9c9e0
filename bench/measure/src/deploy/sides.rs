//! Two sides on this machine: their hosts, the names of their transports, and how these are opened.

use std::thread::{self, ScopedJoinHandle};

use crate::deploy::veth::WireRate;
use crate::driver::Driver;
use crate::error::Error;
use crate::plan::Side;
use crate::rights;
use crate::session::{Link, Session, Setup};

use super::child;
use super::link::NamedLink;
use super::link::XDP;
use super::processes::{LocalTransport, STAGE, TransportPair};
use super::veth::{Pair, check_mtu, interfaces};

/// Two sides, joined as long as this lives.
pub struct Sides {
    /// The payload of a frame.
    pub mtu: u32,
    ends: TransportPair,
    /// Present if each side has its own host.
    pair: Option<Pair>,
}

impl Sides {
    /// Two hosts, with a cable between them that these drivers can use, and that has this rate.
    pub(crate) fn cabled(mtu: u32, rate: Option<WireRate>, drivers: &[Driver]) -> Result<Sides, Error> {
        rights::check(true, drivers)?;
        check_mtu(mtu, drivers)?;
        Ok(Sides { mtu, ends: TransportPair::of(interfaces()), pair: Some(Pair::new(mtu, rate)?) })
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
    pub fn on(&self, side: Side, nth: usize) -> String {
        self.ends.names[side as usize].replace(STAGE, &nth.to_string())
    }

    /// Whether each side is an interface with an XDP program.
    pub fn have_xdp_programs(&self) -> bool {
        self.ends.names[0].starts_with(XDP)
    }

    /// Run `work` on the host of that side.
    pub fn at<T: Send>(&self, side: Side, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        match &self.pair {
            Some(pair) => Ok(pair.hosts[side as usize].enter(work)?),
            None => Ok(work()),
        }
    }

    /// Run the far side on a thread of its own, and the near side on its host.
    ///
    /// # Errors
    /// The near side's; the far side's if the near side knows only that it is gone or silent.
    pub fn both<N: Send, F: Send>(
        &self,
        near: impl FnOnce(&ScopedJoinHandle<'_, Result<F, Error>>) -> Result<N, Error> + Send,
        far: impl FnOnce() -> Result<F, Error> + Send,
    ) -> Result<(N, Result<F, Error>), Error> {
        let (near, far) = thread::scope(|scope| {
            let far = scope.spawn(|| self.at(Side::Far, far)?);
            let near = self.at(Side::Near, || near(&far)).and_then(|near| near);
            (near, far.join().unwrap_or_else(|_| Err(Error::PeerGone("its thread panicked".to_owned()))))
        });
        match (near, far) {
            (Err(Error::PeerGone(_) | Error::Lost(_)), Err(why)) => Err(why),
            (near, far) => Ok((near?, far)),
        }
    }

    /// Measure against a far side in a process of its own.
    pub(crate) fn measure(&self, setup: Setup<'_>) -> Result<Session, Error> {
        let [here, there] = &self.ends.names;
        let far = self.at(Side::Far, || child::Far::start(there, setup.cores, setup.watch))??;
        self.at(Side::Near, || far.measure(here, setup))?
    }
}
