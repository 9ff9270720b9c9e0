//! What can be said of the comparison with others.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::options::{CoresArg, HostsArg, Options};
use super::{Task, usage};
use crate::compare::{self, Wanted};
use crate::error::Error;
use crate::size::Size;
use crate::values;

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
    /// Always on a cable of our own.
    pub(super) fn compare(&self, args: &CompareArgs) -> Result<Task, Error> {
        if self.peer.is_some() || self.serve || self.hosts.is_some_and(|hosts| hosts != HostsArg::Veth) {
            return Err(usage(
                "compare has every transport as a row of one table, on hosts of its own: choose with --peers, as in \
                 --peers am-shm, and leave --peer, --serve and --hosts out",
            ));
        }
        if !self.via.is_empty() || self.bundles.is_some() {
            return Err(usage("compare has rows of its own: choose with --peers, and leave --via and --bundles out"));
        }
        if self.size.contains(&Size::Full) {
            return Err(usage("compare takes --size in bytes: no two peers' frames hold the same"));
        }
        for wanted in &args.peers {
            let names = compare::names();
            if !names.iter().any(|name| compare::means(wanted, name)) {
                return Err(Error::Usage(format!("no peer `{wanted}`: there are {}", names.join(", "))));
            }
        }
        if let Some(CoresArg::One(core)) = self.cores {
            return Err(Error::Usage(format!(
                "compare has both sides here: --cores A,B, two cores of which {core} may be one, or --cores none"
            )));
        }
        self.check_plot(args.plot.as_ref())?;
        self.no_on()?;
        let (peers, plot) = (args.peers.clone(), args.plot.clone());
        Ok(Task::Compare(Wanted { peers, plot, limit: args.limit, mtu: self.mtu.unwrap_or(1500) }))
    }
}
