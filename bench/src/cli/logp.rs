//! The options of `logp`.

use std::path::PathBuf;

use super::options::{HostsArg, Options};
use super::{Task, Topology, usage};
use crate::error::Error;

impl Options {
    /// Over the transport that is asked for, or over those that every host has.
    pub(super) fn logp(&self, plot: Option<&PathBuf>) -> Result<Task, Error> {
        if self.serve || self.coalesce.is_some() {
            return Err(usage("logp is the near side, and sends one message a frame: omit --serve and --coalesce"));
        }
        self.check_plot(plot)?;
        if self.hosts.is_some() || self.peer.is_some() {
            return Ok(Task::LogP(vec![self.place()?], plot.cloned()));
        }
        if !self.driver.is_empty() || self.xdp.is_some() || self.mtu.is_some() {
            return Err(usage(
                "several transports have no --driver, --xdp and --mtu in common: choose one with --hosts",
            ));
        }
        let hosts = [HostsArg::Veth, HostsArg::Udp, HostsArg::Tcp, HostsArg::Shm];
        let topologies: Vec<Topology> = hosts.into_iter().map(|hosts| self.joined(hosts)).collect::<Result<_, _>>()?;
        Ok(Task::LogP(topologies, plot.cloned()))
    }
}
