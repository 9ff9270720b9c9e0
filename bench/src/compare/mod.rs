//! Our stack compared with its alternatives, on the same wire, in turn. Each stack that is compared is a *peer* here.
//!
//! ```text
//!   peer.rs ─▶ each Peer: installed? ───▶ rounds: each has its turn ─▶ rows.rs ─▶ report.rs, plot.rs
//!                  │                          │
//!                  │       ours.rs     our own, by the sessions of the other commands: am, raw, kernel UDP and TCP
//!                  └────── foreign.rs  foreign programs, each turn in its own sandbox
//! ```
//!
//! A peer that is not installed, or does not run, has a row with the reason.
//!
//! Read first: [`peer`], then [`rows`]; for foreign programs [`foreign`], then `bench/peers/peer.sh`.

mod foreign;
mod offload;
mod ours;
mod peer;
mod plot;
mod report;
mod rows;

use std::time::Duration;

use clap::Args;
use offload::Offload;
use rows::{Comparison, Row, Settings};

use am_measure::deploy::{LocalTransport, Pair, check_mtu};
use am_measure::options::{self, DEFAULT_MTU, Origin, PlotOption, check_once, only};
use am_measure::out::status;
use am_measure::{Common, Driver, Error, FramingArg, Here, HostsArg, Progress, Watch, rights};

pub(crate) use ours::take_turn;

#[derive(Clone, Debug, Args)]
#[command(mut_arg("hosts", |hosts| hosts.value_parser(only(HostsArg::APART)).help(
    "The rows over one transport; `veth` for every row [default: veth]")))]
#[command(mut_arg("mtu", |mtu| mtu.default_value("1500").help("MTU of the veth pair, 148 to 65535")))]
#[command(mut_arg("framing", |framing| framing.default_value("bare").help("Where our messages carry their header")))]
#[command(mut_arg("rounds", |rounds| rounds.default_value("3")))]
#[command(mut_arg("time", |time| time.default_value("0.1")))]
#[command(mut_arg("plot", |plot| plot.help("Plot time and bandwidth over size, as SVG")))]
pub(crate) struct CompareArgs {
    /// The peers to measure, each by its name or by its family (`tcp` selects `tcp-nagle` too). The error
    /// about an unknown name lists all names
    /// [default: all that are installed]
    #[arg(long, value_delimiter = ',', value_name = "PEER,...")]
    peers: Vec<String>,
    /// A foreign program that takes longer for one turn is killed
    #[arg(long, default_value = "120", value_parser = options::seconds, value_name = "SECONDS")]
    limit: Duration,
    #[command(flatten)]
    plot: PlotOption,
    #[command(flatten)]
    here: Here,
    /// Bytes of a message (64K, 1M)
    #[arg(long, value_delimiter = ',', default_value = "8,64,512,4K,32K,256K,1M", value_parser = options::message,
          value_name = "BYTES,...", help_heading = "What")]
    size: Vec<usize>,
    #[command(flatten)]
    common: Common,
}

/// A peer with this many failed turns gets no more.
const MAX_FAILURES: usize = 2;

impl CompareArgs {
    /// The transport whose rows are selected; `None` for every row. The comparison always makes its own hosts.
    pub(crate) fn over(&self) -> Result<Option<LocalTransport>, Error> {
        self.plot.check(&self.common.print)?;
        check_once("--size", &self.size)?;
        Ok(self.here.hosts.and_then(HostsArg::local_transport))
    }

    /// Measure all rows in turn, or those over one transport, and print the result. The failure of a peer is no error.
    pub(crate) fn run(&self, watch: &Watch) -> Result<(), Error> {
        let over = self.over()?;
        rights::check(true, &[Driver::Am])?;
        let mtu = self.here.mtu.unwrap_or(DEFAULT_MTU);
        check_mtu(mtu, &[Driver::Am])?;
        let Common { open, amount, print } = &self.common;
        let (amount, how, cores) = (amount.amount(), open.how(FramingArg::Bare), self.here.cores.both()?);
        let mut sizes = self.size.clone();
        sizes.sort_unstable();
        let settings = Settings { sizes, amount, limit: self.limit, cores, how, mtu: mtu as usize };
        let peers = peer::chosen(&self.peers, over)?;
        let pair = Pair::new(mtu, None)?;
        let offload = Offload::of(&pair);
        let mut rows: Vec<Row> = peers.into_iter().map(|peer| Row::new(peer, watch)).collect();
        watch.check()?;
        announce(&rows, &settings);
        let end = rounds(&mut rows, &pair, &settings, print.json, watch);
        let origin = Origin::new(over.map_or("all", LocalTransport::name), Some(mtu));
        let comparison = Comparison { rows, settings, offload };
        print.publish(comparison.report(), &origin)?;
        self.plot.write(|| comparison.svg())?;
        end
    }
}

/// Print how long it will take.
fn announce(rows: &[Row], settings: &Settings) {
    let installed = rows.iter().filter(|row| row.absent.is_none());
    let turns: Vec<Duration> = installed.map(|row| row.peer.takes(settings)).collect();
    let all = turns.iter().sum::<Duration>() * settings.amount.rounds as u32;
    let (count, rounds) = (turns.len(), am_measure::report::rounds(settings.amount.rounds));
    let take = if settings.amount.rounds == 1 { "takes" } else { "take" };
    status(&format!("{count} of {} peers are installed; {rounds} {take} about {} s", rows.len(), all.as_secs().max(1)));
}

/// Give every peer a turn in every round. Each round begins with another peer.
fn rounds(rows: &mut [Row], pair: &Pair, settings: &Settings, quiet: bool, watch: &Watch) -> Result<(), Error> {
    let progress = Progress::new(rows.len() * settings.amount.rounds, quiet);
    for round in 0..settings.amount.rounds {
        for nth in 0..rows.len() {
            let at = (nth + round) % rows.len();
            let row = &mut rows[at];
            progress.say(&format!("round {}: {}", round + 1, row.peer.name));
            if row.absent.is_none() && row.failures.len() < MAX_FAILURES {
                let turn = row.peer.turn(pair, settings, watch);
                watch.check()?;
                row.take(round, turn);
            }
            progress.done();
        }
    }
    Ok(())
}
