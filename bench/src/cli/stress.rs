//! The options of `stress`.

use clap::Args;

use super::options::{HostsArg, Options, Switch};
use super::{Task, usage};
use crate::error::Error;
use crate::values;

/// The options of `stress` alone.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub(crate) struct StressArgs {
    /// Messages in all, requests and replies
    #[arg(long, default_value = "1e6", value_parser = values::count, value_name = "N")]
    pub(crate) messages: u64,
    /// Bytes of words and payload in all messages together [default: 1073 for each message]
    #[arg(long, value_parser = values::bytes, value_name = "BYTES")]
    pub(crate) bytes: Option<u64>,
    /// Percentage of the frames that are lost on purpose: 0.1 or 0.1%
    #[arg(long, default_value = "0.1%", value_parser = values::share, value_name = "PERCENT")]
    pub(crate) loss: u32,
    /// Whether the receiver stalls from time to time
    #[arg(long, value_enum, default_value_t = Switch::On, value_name = "ON|OFF")]
    pub(crate) stalls: Switch,
    /// Whether signals stop and continue both processes
    #[arg(long, value_enum, default_value_t = Switch::On, value_name = "ON|OFF")]
    pub(crate) stops: Switch,
    /// Seed of everything random [default: another one each time]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

impl Options {
    pub(super) fn stress(&self, args: &StressArgs) -> Result<Task, Error> {
        let is_one = matches!(self.hosts, Some(HostsArg::Loopback | HostsArg::Sim));
        if self.peer.is_some() || self.serve || is_one {
            return Err(usage(
                "stress stops and continues two processes of this machine: give --hosts veth, or another with two processes; \
                 omit --peer and --serve",
            ));
        }
        if !self.size.is_empty() || !self.driver.is_empty() || self.says_amount() {
            return Err(usage(
                "stress has its own sizes, and --messages instead of a time: omit --driver, --size, --rounds, --time and \
                 --warm-up",
            ));
        }
        Ok(Task::Stress(args.clone(), self.place_or_cable()?))
    }
}
