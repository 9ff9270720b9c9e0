//! The options of the commands with many hosts: `contention` and `permute`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::options::{HostsArg, Options};
use super::{Task, usage};
use crate::contention::Server;
use crate::error::Error;
use crate::size::Size;

/// The most hosts on a bridge, besides the server. Each has a namespace, a cable and a thread.
const MAX_BRIDGED: usize = 16;
/// The most simulated hosts.
const MAX_SIMULATED: usize = 256;

/// The most members of a group: its clients can keep so many busy.
const MAX_MEMBERS: usize = crate::scale::CLIENTS / 4;

/// Bytes of a message of `permute`.
pub(crate) const PERMUTE_SIZE: usize = 1024;

/// Numbers of clients or hosts, each once, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clients(pub(crate) Vec<usize>);

impl Clients {
    pub(crate) fn most(&self) -> usize {
        self.0.last().copied().unwrap_or(1)
    }
}

impl FromStr for Clients {
    type Err = String;

    fn from_str(text: &str) -> Result<Clients, String> {
        let counts =
            text.split(',').map(|count| count.parse().ok().filter(|count| (1..=MAX_SIMULATED).contains(count)));
        let counts: Option<Vec<usize>> = counts.collect();
        let counts = counts.filter(|counts| counts.is_sorted_by(|a, b| a < b));
        counts
            .map(Clients)
            .ok_or_else(|| format!("numbers from 1 to {MAX_SIMULATED}, in ascending order, as in 1,4,16"))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub(crate) struct ContentionArgs {
    /// Numbers of clients [default: 1,2,4,8,16; with --hosts sim 1,2,4,8,16,32,64,92,128,256]
    #[arg(long, value_name = "N,...")]
    pub(crate) clients: Option<Clients>,
    /// How the server serves its clients [default: all; with --hosts sim all but threads, which need a machine]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SERVER,...")]
    pub(crate) server: Vec<Server>,
    /// Plot rates and round trips over the number of clients, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub(crate) struct PermuteArgs {
    /// Even numbers of hosts [default: 16; with --hosts sim 16,92,256]
    #[arg(long, value_name = "N,...")]
    pub(crate) nodes: Option<Clients>,
    /// With --hosts sim also on two switches with this fraction of the hosts' bandwidth between them: 4 for a quarter; 1
    /// for none [default: 4]
    #[arg(long, value_name = "TIMES", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) oversubscription: Option<u64>,
    /// Plot the ratios to two hosts alone, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub(crate) struct ScaleArgs {
    /// Numbers of members [default: 1,2,4,8,16]
    #[arg(long, value_name = "N,...")]
    pub(crate) members: Option<Clients>,
}

/// What many hosts do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManyHosts {
    pub(crate) is_simulated: bool,
    pub(crate) counts: Clients,
    pub(crate) sizes: Vec<usize>,
    pub(crate) plot: Option<PathBuf>,
}

impl Options {
    pub(super) fn contention(&self, args: &ContentionArgs) -> Result<Task, Error> {
        let defaults = ([1, 2, 4, 8, 16].as_slice(), [1, 2, 4, 8, 16, 32, 64, 92, 128, 256].as_slice());
        let hosts = self.many_hosts(
            "contention",
            args.clients.as_ref(),
            args.plot.as_ref(),
            defaults,
            &crate::contention::SIZES,
        )?;
        if hosts.is_simulated && args.server.contains(&Server::Threads) {
            return Err(usage("--server threads needs real threads: give --hosts veth, or omit it"));
        }
        let all = Server::ALL.into_iter().filter(|server| !(hosts.is_simulated && *server == Server::Threads));
        let servers = if args.server.is_empty() { all.collect() } else { args.server.clone() };
        Ok(Task::Contention(hosts, servers))
    }

    pub(super) fn permute(&self, args: &PermuteArgs) -> Result<Task, Error> {
        let hosts = self.many_hosts(
            "permute",
            args.nodes.as_ref(),
            args.plot.as_ref(),
            (&[16], &[16, 92, 256]),
            &[PERMUTE_SIZE],
        )?;
        if hosts.counts.0.iter().any(|count| count % 2 == 1) {
            return Err(usage("hosts send in pairs: give even numbers of --nodes"));
        }
        if hosts.sizes.len() > 1 {
            return Err(usage("permute takes one --size"));
        }
        if !hosts.is_simulated && args.oversubscription.is_some() {
            return Err(usage("--oversubscription is for --hosts sim: a bridge has no trunk"));
        }
        let trunk = args.oversubscription.unwrap_or(4);
        Ok(Task::Permute(hosts, Some(trunk).filter(|trunk| *trunk > 1)))
    }

    pub(super) fn scale(&self, args: &ScaleArgs) -> Result<Task, Error> {
        let has_hosts = !matches!(self.hosts, None | Some(HostsArg::Sim)) || self.serve || self.peer.is_some();
        let has_machine = self.cores.is_some() || self.xdp.is_some() || self.rounds.is_some();
        if has_hosts
            || has_machine
            || self.on.is_some()
            || self.name.is_some()
            || !self.driver.is_empty()
            || !self.size.is_empty()
        {
            return Err(usage(
                "scale has simulated hosts, one round and messages of one size: omit --hosts, --peer, --on, --size, --cores, --xdp \
                 and --rounds",
            ));
        }
        let members = args.members.clone().map_or(vec![1, 2, 4, 8, 16], |members| members.0);
        if members.iter().any(|count| *count > MAX_MEMBERS) {
            return Err(Error::Usage(format!("at most {MAX_MEMBERS} members, a quarter of the clients")));
        }
        Ok(Task::Scale(members))
    }

    fn many_hosts(
        &self,
        command: &str,
        counts: Option<&Clients>,
        plot: Option<&PathBuf>,
        (bridged, simulated): (&[usize], &[usize]),
        sizes: &[usize],
    ) -> Result<ManyHosts, Error> {
        let is_simulated = match self.hosts {
            None | Some(HostsArg::Veth) => false,
            Some(HostsArg::Sim) => true,
            Some(_) => {
                return Err(Error::Usage(format!(
                    "{command} has many hosts on a switch: give --hosts veth (a bridge, root) or --hosts sim"
                )));
            }
        };
        if self.peer.is_some() || self.serve || !self.driver.is_empty() || self.on.is_some() || self.name.is_some() {
            return Err(Error::Usage(format!(
                "{command} makes its own hosts, with am: omit --peer, --serve, --driver, --on and --name"
            )));
        }
        let counts = counts.cloned().unwrap_or(Clients(if is_simulated { simulated } else { bridged }.to_vec()));
        if !is_simulated && counts.most() > MAX_BRIDGED {
            return Err(Error::Usage(format!(
                "at most {MAX_BRIDGED} hosts on a bridge of this machine; --hosts sim has up to {MAX_SIMULATED}"
            )));
        }
        self.check_plot(plot)?;
        let least = crate::hosts::host::WORD_BYTES;
        let bytes = |size: &Size| match size {
            Size::Bytes(bytes) if *bytes >= least => Ok(*bytes),
            _ => {
                Err(Error::Usage(format!("{command} takes --size in bytes, from {least}: it sends that many in words")))
            }
        };
        let given: Vec<usize> = self.size.iter().map(bytes).collect::<Result<_, _>>()?;
        let sizes = if given.is_empty() { sizes.to_vec() } else { given };
        Ok(ManyHosts { is_simulated, counts, sizes, plot: plot.cloned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_up() {
        assert_eq!("1,2,256".parse(), Ok(Clients(vec![1, 2, 256])));
        for text in ["", "0", "257", "4,2", "2,2", "1,x"] {
            assert!(text.parse::<Clients>().unwrap_err().contains("as in 1,4,16"), "{text}");
        }
    }
}
