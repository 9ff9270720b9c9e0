//! Where the commands with many hosts run: on a bridge of this machine, or simulated.

use am_wire::frame::ETHERNET_HEADER;
use clap::Args;
use clap::builder::RangedU64ValueParser;

use am_measure::deploy::check_mtu;
use am_measure::hosts::{Arena, Bridged, Simulation};
use am_measure::options::{self, AmountOptions, CoalesceOption, DEFAULT_MTU, Origin, PlotOption, only, usage};
use am_measure::{Amount, Common, Driver, DriverOptions, Error, FramingArg, Here, HostsArg, Watch, rights};

/// The most hosts on a bridge, besides the server. Each has a namespace, a cable and a thread.
const MAX_BRIDGED: usize = 16;
/// The most simulated hosts.
const MAX_SIMULATED: usize = 256;

/// A number of hosts.
pub(crate) fn count() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=MAX_SIMULATED as u64)
}

/// Numbers of hosts, each once, go up.
pub(crate) fn check_counts(option: &str, counts: &[usize]) -> Result<(), Error> {
    if counts.is_sorted_by(|a, b| a < b) {
        return Ok(());
    }
    Err(usage(format!("{option} takes numbers in ascending order, as in 1,4,16")))
}

/// The options of commands with many hosts.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("hosts", |hosts| hosts.value_parser(only(HostsArg::MANY)).help(
    "Where the hosts run: `veth`, in network namespaces on a bridge (root), or `sim`, on a simulated switch in virtual time \
     [default: veth]")))]
#[command(mut_arg("mtu", |mtu| mtu.default_value("1500").help(
    "MTU of the bridge, 148 to 65535; with --hosts sim the payload bytes of a frame, 1500 to 65522")))]
#[command(mut_arg("cores", |cores| cores.help(
    "Two cores, or `none`. On a bridge the second is for the polling server, or for nobody [default: the last two]")))]
// Bare frames are for two nodes: a switch would have to learn an address for every message.
#[command(mut_arg("framing", |framing| framing.default_value("split").help("Where our messages carry their header")))]
#[command(mut_arg("coalesce", |coalesce| coalesce.help("Whether several messages may share a frame")))]
// Virtual time needs one round: the others would have the same figures.
#[command(mut_arg("rounds", |rounds| rounds.default_value("3").default_value_if("hosts", "sim", "1").help(
    "How many turns each measurement takes; 1 with --hosts sim")))]
#[command(mut_arg("warm_up", |warm_up| warm_up.help(
    "Time before each measurement that is not counted [default: as long as --time]")))]
pub(crate) struct ManyOptions {
    #[command(flatten)]
    here: Here,
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    coalesce: CoalesceOption,
    #[command(flatten)]
    pub(crate) plot: PlotOption,
}

impl ManyOptions {
    pub(crate) fn is_simulated(&self) -> bool {
        self.here.hosts == Some(HostsArg::Sim)
    }

    /// Check this and the numbers of hosts, which this option names.
    pub(crate) fn check(&self, option: &str, counts: &[usize]) -> Result<(), Error> {
        self.plot.check(&self.common.print)?;
        check_counts(option, counts)?;
        if !self.is_simulated() && counts.iter().any(|count| *count > MAX_BRIDGED) {
            return Err(usage(format!(
                "at most {MAX_BRIDGED} hosts on a bridge of this machine; --hosts sim has up to {MAX_SIMULATED}"
            )));
        }
        Ok(())
    }

    /// How much is measured.
    pub(crate) fn amount(&self) -> Amount {
        let AmountOptions { rounds, time, warm_up } = &self.common.amount;
        Amount { rounds: rounds.rounds, warm_up: warm_up.unwrap_or(*time), time: *time }
    }

    /// Build a place with this many ports, and let `work` use it.
    pub(crate) fn with_arena<T>(
        &self,
        ports: usize,
        oversubscription: Option<u64>,
        watch: &Watch,
        work: impl FnOnce(&mut dyn Arena) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let how = DriverOptions { coalesce: self.coalesce.coalesce.is_on(), ..self.common.open.how(FramingArg::Split) };
        let mtu = self.mtu();
        if self.is_simulated() {
            return work(&mut simulated(how, mtu, oversubscription, watch)?);
        }
        rights::check(true, &[Driver::Am])?;
        check_mtu(mtu, &[Driver::Am])?;
        let core = self.here.cores.both()?.far;
        work(&mut Bridged::new(ports, mtu, (how, core), watch)?)
    }

    pub(crate) fn origin(&self) -> Origin {
        Origin::new(if self.is_simulated() { "sim" } else { "xdp" }, Some(self.mtu()))
    }

    fn mtu(&self) -> u32 {
        self.here.mtu.unwrap_or(DEFAULT_MTU)
    }
}

/// A simulated switch for frames with this payload, or two with a trunk.
pub(crate) fn simulated(
    how: DriverOptions,
    mtu: u32,
    oversubscription: Option<u64>,
    watch: &Watch,
) -> Result<Simulation<'_>, Error> {
    let most = 65_536 - ETHERNET_HEADER as u32;
    if !(DEFAULT_MTU..=most).contains(&mtu) {
        return Err(usage(format!("--mtu goes from {DEFAULT_MTU} to {most} with --hosts sim")));
    }
    Ok(Simulation { how, mtu, oversubscription, watch })
}

/// Bytes of a message: it is sent in words.
pub(crate) fn message(text: &str) -> Result<usize, String> {
    let least = am_measure::hosts::WORD_BYTES;
    options::message(text).and_then(|size| if size >= least { Ok(size) } else { Err(format!("{least} or more")) })
}
