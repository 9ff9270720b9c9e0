//! The options of `stress`.

use clap::Args;

use crate::stress;
use am_measure::driver::Driver;
use am_measure::error::Error;
use am_measure::options::{CoalesceOption, OpenOptions, Print, Switch, only};
use am_measure::plan::{DriverOptions, FramingArg};
use am_measure::topology::{Here, HostsArg};
use am_measure::values;
use am_measure::watch::Watch;

#[derive(Clone, Debug, Args)]
#[command(mut_arg("hosts", |hosts| hosts.value_parser(only(HostsArg::APART)).help(
    "Run both hosts on this machine, as two processes [default: veth]")))]
#[command(mut_arg("coalesce", |coalesce| coalesce.default_value("on").help("Whether several messages may share a frame")))]
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
    #[command(flatten)]
    pub(crate) here: Here,
    #[command(flatten)]
    pub(crate) open: OpenOptions,
    #[command(flatten)]
    pub(crate) coalesce: CoalesceOption,
    #[command(flatten)]
    pub(crate) print: Print,
}

impl StressArgs {
    pub(super) fn run(&self, watch: &Watch) -> Result<(), Error> {
        self.print.check()?;
        let topology = self.here.topology(&self.open)?;
        let sides = topology.sides(&[Driver::Am])?;
        let how = DriverOptions { coalesce: self.coalesce.coalesce.is_on(), ..self.open.how(FramingArg::Bare) };
        stress::run(self, how, (&sides, &topology), self.here.cores.both()?, &self.print, watch)
    }
}
