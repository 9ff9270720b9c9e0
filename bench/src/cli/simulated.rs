//! The checks of `--hosts sim`.

use am_netdev_sim::live::Settings;
use am_transport::{Name, NameError};
use am_wire::frame::ETHERNET;

use super::options::Options;
use super::place::{SIM, Where};
use super::usage;
use crate::error::Error;
use crate::via::Via;

/// The default payload of a frame on a simulated network.
const ETHERNETS: usize = 1500;

impl Options {
    /// The network of `--on`, by default one without faults.
    pub(super) fn simulated(&self) -> Result<Where, Error> {
        if self.name.is_some() {
            return Err(usage("--name is for two machines; --hosts names its own nodes"));
        }
        if self.xdp.is_some() || self.via.contains(&Via::Udp) {
            return Err(usage("--hosts sim has no interface and no kernel in it: --via am,raw, and no --xdp"));
        }
        let on = self.on.as_deref().unwrap_or("sim:1");
        let name: Name = on.parse().map_err(|error: NameError| Error::Usage(error.to_string()))?;
        if name.scheme() != SIM {
            return Err(Error::Usage(format!(
                "--hosts sim is on a simulated network, not on {on}: --on sim:7,loss=0.01"
            )));
        }
        let settings = Settings::from_name(&name).map_err(|error| Error::Usage(error.to_string()))?;
        match (settings.frame, self.mtu) {
            (Some(_), Some(_)) => Err(usage("--mtu and frame= say the same: leave one of them out")),
            (Some(_), None) => Ok(Where::Sim(on.to_owned())),
            (None, mtu) => {
                let frame = mtu.map_or(ETHERNETS, |mtu| mtu as usize) + ETHERNET;
                let whole: Name = format!("{on},frame={frame}").parse().unwrap_or(name);
                let bad =
                    |_| Error::Usage(format!("--mtu goes from {ETHERNETS} to {} with --hosts sim", 65_536 - ETHERNET));
                Settings::from_name(&whole).map(|_| Where::Sim(whole.to_string())).map_err(bad)
            }
        }
    }
}
