//! The options of `compare`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::options::{HostsArg, Options};
use super::{Task, usage};
use crate::cores::CoresArg;
use crate::error::Error;
use crate::size::Size;
use crate::values;

/// The options of `compare` alone.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub(crate) struct CompareArgs {
    /// The peers to measure, each by its name or by its family (`tcp` selects `tcp-nagle` too). The error
    /// about an unknown name lists all names
    /// [default: all that are installed]
    #[arg(long, value_delimiter = ',', value_name = "PEER,...")]
    pub(crate) peers: Vec<String>,
    /// A foreign program that takes longer for one turn is killed
    #[arg(long, default_value = "120", value_parser = values::seconds, value_name = "SECONDS")]
    pub(crate) limit: Duration,
    /// Plot time and bandwidth over size, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

impl Options {
    /// The comparison always makes its own hosts. `--hosts veth` selects every row, another value the rows over that
    /// transport.
    pub(super) fn compare(&self, args: &CompareArgs) -> Result<Task, Error> {
        if self.peer.is_some() || self.serve {
            return Err(usage("compare runs both sides on this machine: omit --peer and --serve"));
        }
        let over = match self.hosts {
            None | Some(HostsArg::Veth) => None,
            Some(hosts) => Some(hosts.local_transport().ok_or_else(|| {
                usage("compare has no row over that: give --hosts veth for every row, or udp, tcp, shm, memif or virtio-user for the rows over one of them")
            })?),
        };
        if !self.driver.is_empty() || self.coalesce.is_some() {
            return Err(usage("compare has its own rows: choose with --peers, and omit --driver and --coalesce"));
        }
        if self.size.contains(&Size::Full) {
            return Err(usage("compare takes --size in bytes, because full frames of its peers differ"));
        }
        if let Some(CoresArg::One(core)) = self.cores {
            return Err(Error::Usage(format!(
                "compare runs both sides on this machine: give --cores A,B, for example {core} and another, or --cores none"
            )));
        }
        self.check_plot(args.plot.as_ref())?;
        self.no_on()?;
        Ok(Task::Compare(args.clone(), over))
    }
}
