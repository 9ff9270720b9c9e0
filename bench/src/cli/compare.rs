//! What can be said of the comparison with others.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::options::{HostsArg, Options};
use super::{Task, usage};
use crate::cores::CoresArg;
use crate::deploy::joined::Joint;
use crate::error::Error;
use crate::size::Size;
use crate::values;

/// What the command line says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// These peers alone; all where there are none.
    pub(crate) peers: Vec<String>,
    /// Those alone that go over this; over anything where it is not said.
    pub(crate) over: Option<Joint>,
    /// Where to draw.
    pub(crate) plot: Option<PathBuf>,
    /// The longest turn of a program that was not written here.
    pub(crate) limit: Duration,
    /// Of the cable.
    pub(crate) mtu: u32,
}

/// What can be said of the comparison alone.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub(crate) struct CompareArgs {
    /// These alone, each by its name or by what several begin with (`tcp` is also
    /// `tcp-nagle`) [default: all that are installed]
    #[arg(long, value_delimiter = ',', value_name = "PEER,...")]
    pub(crate) peers: Vec<String>,
    /// A program that was not written here and takes longer for one turn is ended
    #[arg(long, default_value = "120", value_parser = values::seconds, value_name = "SECONDS")]
    pub(crate) limit: Duration,
    /// Draw time and bandwidth over size, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

impl Options {
    /// Always on hosts of our own: `--hosts veth` has every row, and another those that go over it.
    pub(super) fn compare(&self, args: &CompareArgs) -> Result<Task, Error> {
        if self.peer.is_some() || self.serve {
            return Err(usage("compare has both sides here: leave --peer and --serve out"));
        }
        let over = match self.hosts {
            None | Some(HostsArg::Veth) => None,
            Some(hosts) => Some(hosts.joint().ok_or_else(|| {
                usage("nothing that compare has goes over that: --hosts veth for every row, or udp, tcp, shm, memif or virtio-user for those over one of them")
            })?),
        };
        if !self.via.is_empty() || self.bundles.is_some() {
            return Err(usage("compare has rows of its own: choose with --peers, and leave --via and --bundles out"));
        }
        if self.size.contains(&Size::Full) {
            return Err(usage("compare takes --size in bytes: no two peers' frames hold the same"));
        }
        if let Some(CoresArg::One(core)) = self.cores {
            return Err(Error::Usage(format!(
                "compare has both sides here: --cores A,B, two cores of which {core} may be one, or --cores none"
            )));
        }
        self.check_plot(args.plot.as_ref())?;
        self.no_on()?;
        let (peers, plot) = (args.peers.clone(), args.plot.clone());
        Ok(Task::Compare(Wanted { peers, over, plot, limit: args.limit, mtu: self.mtu.unwrap_or(1500) }))
    }
}
