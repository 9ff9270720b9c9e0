//! The checks of `--hosts sim`.

use am_netdev_sim::live::SimSettings;
use am_transport::{NameError, TransportName};
use am_wire::frame::ETHERNET_HEADER;

use super::options::Options;
use super::topology::{SIM, Topology};
use super::usage;
use crate::driver::Driver;
use crate::error::Error;

/// The default payload of a frame on a simulated network.
const DEFAULT_MTU: usize = 1500;

impl Options {
    /// The network of `--on`, by default one without faults.
    pub(super) fn simulated(&self) -> Result<Topology, Error> {
        if self.name.is_some() {
            return Err(usage("--name is for two machines; --hosts names its own nodes"));
        }
        if self.xdp.is_some() || self.driver.contains(&Driver::Udp) {
            return Err(usage(
                "--hosts sim has no interface and no kernel sockets: give --driver am,raw, and no --xdp",
            ));
        }
        let on = self.on.as_deref().unwrap_or("sim:1");
        let name: TransportName = on.parse().map_err(|error: NameError| Error::Usage(error.to_string()))?;
        if name.scheme() != SIM {
            return Err(Error::Usage(format!(
                "{on} is no simulated network: with --hosts sim give --on sim:7,loss=0.01 or the like"
            )));
        }
        let settings = SimSettings::from_name(&name).map_err(|error| Error::Usage(error.to_string()))?;
        match (settings.frame, self.mtu) {
            (Some(_), Some(_)) => Err(usage("--mtu and frame= mean the same: omit one of them")),
            (Some(_), None) => Ok(Topology::Sim(on.to_owned())),
            (None, mtu) => {
                let frame = mtu.map_or(DEFAULT_MTU, |mtu| mtu as usize) + ETHERNET_HEADER;
                let whole: TransportName = format!("{on},frame={frame}").parse().unwrap_or(name);
                let bad = |_| {
                    Error::Usage(format!(
                        "--mtu goes from {DEFAULT_MTU} to {} with --hosts sim",
                        65_536 - ETHERNET_HEADER
                    ))
                };
                SimSettings::from_name(&whole).map(|_| Topology::Sim(whole.to_string())).map_err(bad)
            }
        }
    }
}
