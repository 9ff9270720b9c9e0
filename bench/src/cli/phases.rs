//! The options of `phases`.

use std::path::PathBuf;

use super::options::{HostsArg, Options};
use super::topology::DEFAULT_MTU;
use super::{Task, Topology, usage};
use crate::cores::CoresArg;
use crate::error::Error;
use crate::phases;
use crate::size::Size;

impl Options {
    /// Over the transport that is asked for, or over those that most hosts have.
    pub(super) fn phases(&self, plot: Option<&PathBuf>) -> Result<Task, Error> {
        let has_no_wire = matches!(self.hosts, Some(HostsArg::Loopback | HostsArg::Sim));
        if self.peer.is_some() || self.serve || has_no_wire {
            return Err(usage(
                "phases runs both sides in threads of this process, on a real transport: give --hosts veth, shm, udp, tcp, memif or virtio-user; omit --peer and --serve",
            ));
        }
        if !self.driver.is_empty() || self.coalesce.is_some() || self.time.is_some() || self.warm_up.is_some() {
            return Err(usage(
                "phases times a fixed number of single messages: omit --driver, --coalesce, --time and --warm-up, and give --rounds",
            ));
        }
        if matches!(self.cores, Some(CoresArg::One(_))) {
            return Err(usage("phases runs both sides on this machine: give --cores A,B, or --cores none"));
        }
        self.check_plot(plot)?;
        // Frames of one length, so that a message takes as many over each transport.
        let options = Options { mtu: self.mtu.or(Some(DEFAULT_MTU)), ..self.clone() };
        let hosts = match self.hosts {
            Some(hosts) => vec![hosts],
            None if self.xdp.is_some() => return Err(usage("--xdp is for interfaces: add --hosts veth")),
            None => vec![HostsArg::Veth, HostsArg::Shm, HostsArg::Udp],
        };
        let topologies: Vec<Topology> =
            hosts.into_iter().map(|hosts| options.joined(hosts)).collect::<Result<_, _>>()?;
        Ok(Task::Phases(topologies, self.message_sizes()?, plot.cloned()))
    }

    fn message_sizes(&self) -> Result<Vec<usize>, Error> {
        let bytes = |size: &Size| match size {
            Size::Bytes(size) if *size <= phases::MAX_SIZE => Ok(*size),
            _ => Err(Error::Usage(format!("phases takes --size in bytes, up to {}", phases::MAX_SIZE))),
        };
        let sizes =
            if self.size.is_empty() { Ok(phases::SIZES.to_vec()) } else { self.size.iter().map(bytes).collect() };
        sizes.map(|mut sizes: Vec<usize>| {
            sizes.sort_unstable();
            sizes
        })
    }
}
