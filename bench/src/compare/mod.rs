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
mod subprocess;

use std::fs;
use std::time::Duration;

use crate::cli::{CompareArgs, Options};
use crate::cores::Cores;
use crate::deploy::processes::LocalTransport;
use crate::deploy::veth::{Pair, check_mtu};
use crate::driver::Driver;
use crate::error::Error;
use crate::origin::Origin;
use crate::out::status;
use crate::plan::FramingArg;
use crate::progress::Progress;
use crate::publish;
use crate::size::Size;
use crate::watch::Watch;

use offload::Offload;
use rows::{Comparison, Row, Settings};

pub(crate) use ours::take_turn;

/// The default number of rounds.
pub(crate) const ROUNDS: usize = 3;
/// The default length of a measurement.
pub(crate) const TIME: Duration = Duration::from_millis(100);
/// The default sizes: from a word to a megabyte.
pub(crate) const SIZES: [usize; 7] = [8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20];
/// A peer with this many failed turns gets no more.
const MAX_FAILURES: usize = 2;

/// Measure all rows in turn, or those `over` one transport, and print the result. The failure of a peer is no error.
pub(crate) fn run(
    args: &CompareArgs,
    over: Option<LocalTransport>,
    options: &Options,
    watch: &Watch,
) -> Result<(), Error> {
    let mtu = options.mtu.unwrap_or(1500);
    check_mtu(mtu, &[Driver::Am])?;
    let settings = settings(args.limit, mtu, options)?;
    let peers = peer::chosen(&args.peers, over)?;
    let pair = Pair::new(mtu)?;
    let offload = Offload::of(&pair);
    let mut rows: Vec<Row> = peers.into_iter().map(|peer| Row::new(peer, watch)).collect();
    watch.check()?;
    announce(&rows, &settings);
    let end = rounds(&mut rows, &pair, &settings, options.json, watch);
    let origin = Origin::new(over.map_or("all", LocalTransport::name), Some(mtu));
    let comparison = Comparison { rows, settings, offload };
    publish(comparison.json(), || comparison.table(), &origin, options)?;
    if let Some(file) = &args.plot {
        fs::write(file, comparison.svg()?).map_err(Error::system("writing the plot"))?;
    }
    end
}

fn settings(limit: Duration, mtu: u32, options: &Options) -> Result<Settings, Error> {
    let mut amount = options.amount(TIME);
    amount.rounds = options.rounds.unwrap_or(ROUNDS);
    let bytes = |size: &Size| if let Size::Bytes(size) = size { Some(*size) } else { None };
    let mut sizes: Vec<usize> = options.size.iter().filter_map(bytes).collect();
    if sizes.is_empty() {
        sizes = SIZES.to_vec();
    }
    sizes.sort_unstable();
    let cores = Cores::both(options.cores.unwrap_or_default())?;
    Ok(Settings { sizes, amount, limit, cores, how: options.how(FramingArg::Bare), mtu: mtu as usize })
}

/// Print how long it will take.
fn announce(rows: &[Row], settings: &Settings) {
    let installed = rows.iter().filter(|row| row.absent.is_none());
    let turns: Vec<Duration> = installed.map(|row| row.peer.takes(settings)).collect();
    let all = turns.iter().sum::<Duration>() * settings.amount.rounds as u32;
    let (count, rounds) = (turns.len(), crate::report::words::rounds(settings.amount.rounds));
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
