//! Our stack compared with its alternatives, on the same wire, in turn.
//!
//! ```text
//!   peers.rs ─▶ each Peer: is it there? ─▶ rounds: each has its turn ─▶ rows.rs ─▶ table, json, plot
//!                  │                          │
//!                  │       built_in.rs   our own, by the sessions of the other commands: am, raw, kernel UDP and TCP
//!                  └────── foreign.rs  foreign programs, each turn in its own sandbox
//! ```
//!
//! A peer that is not installed, or does not run, has a row with the reason.
//!
//! Read first: [`peer`], then [`rows`]; for foreign programs [`foreign`], then `bench/peers/peer.sh`.

mod built_in;
mod child_turn;
mod families;
mod foreign;
mod json;
mod offload;
mod peer;
mod peers;
mod plot;
mod rows;
mod subprocess;
mod table;
mod underlay;

use std::fs;
use std::time::Duration;

use crate::cli::{CompareRequest, Options};
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
use peer::{Peer, Settings};
use rows::{Comparison, Row};

/// The default number of rounds.
const ROUNDS: usize = 3;
/// The default length of a measurement.
const TIME: Duration = Duration::from_millis(100);
/// The default sizes: from a word to a megabyte.
const SIZES: [usize; 7] = [8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20];
/// A peer that failed so often gets no more turns.
const MAX_FAILURES: usize = 2;

/// Measure all rows in turn, and print the result.
///
/// # Errors
/// The wire cannot be made, or a signal arrived. The failure of a peer is no error.
pub(crate) fn run(request: &CompareRequest, options: &Options, watch: &Watch) -> Result<(), Error> {
    check_mtu(request.mtu, &[Driver::Am])?;
    let settings = settings(request, options)?;
    let peers = peers::chosen(&request.peers, request.over)?;
    let pair = Pair::new(request.mtu)?;
    let offload = Offload::of(&pair);
    let mut rows: Vec<Row> = peers.iter().map(|peer| Row::new(peer.as_ref(), &settings, watch)).collect();
    watch.check()?;
    announce(&peers, &rows, &settings);
    let end = rounds(&peers, &mut rows, &pair, &settings, options.json, watch);
    let origin = Origin::new(request.over.map_or("all", LocalTransport::name), Some(request.mtu));
    let comparison = Comparison { rows, settings, offload };
    publish(comparison.json(), || comparison.table(), &origin, options)?;
    if let Some(file) = &request.plot {
        fs::write(file, comparison.svg()?).map_err(Error::system("writing the plot"))?;
    }
    end
}

fn settings(request: &CompareRequest, options: &Options) -> Result<Settings, Error> {
    let mut amount = options.amount(TIME);
    amount.rounds = options.rounds.unwrap_or(ROUNDS);
    let mut sizes: Vec<usize> = options.size.iter().filter_map(bytes).collect();
    if sizes.is_empty() {
        sizes = SIZES.to_vec();
    }
    sizes.sort_unstable();
    sizes.dedup();
    let cores = Cores::both(options.cores.unwrap_or_default())?;
    Ok(Settings {
        sizes,
        amount,
        limit: request.limit,
        cores,
        how: options.how(FramingArg::Bare),
        mtu: request.mtu as usize,
    })
}

fn bytes(size: &Size) -> Option<usize> {
    match size {
        Size::Bytes(size) => Some(*size),
        _ => None,
    }
}

/// Be the process that runs one row's turn.
///
/// # Errors
/// What is missing.
pub(crate) fn take_turn(watch: &Watch) -> Result<(), Error> {
    child_turn::serve(|name, pair, settings| built_in::named(name)?.turn_here(pair, settings, watch), watch)
}

/// Print how long it will take.
fn announce(peers: &[Box<dyn Peer>], rows: &[Row], settings: &Settings) {
    let there = peers.iter().zip(rows).filter(|(_, row)| row.absent.is_none());
    let turns: Vec<Duration> = there.map(|(peer, _)| peer.takes(settings)).collect();
    let all = turns.iter().sum::<Duration>() * settings.amount.rounds as u32;
    let (count, rounds) = (turns.len(), crate::report::words::rounds(settings.amount.rounds));
    status(&format!("{count} of {} peers are installed; {rounds} take about {} s", rows.len(), all.as_secs().max(1)));
}

/// Every peer takes a turn in every round. Each round begins with another peer.
fn rounds(
    peers: &[Box<dyn Peer>],
    rows: &mut [Row],
    pair: &Pair,
    settings: &Settings,
    quiet: bool,
    watch: &Watch,
) -> Result<(), Error> {
    let progress = Progress::new(peers.len() * settings.amount.rounds, quiet);
    for round in 0..settings.amount.rounds {
        for nth in 0..peers.len() {
            let nth = (nth + round) % peers.len();
            let (peer, row) = (&peers[nth], &mut rows[nth]);
            progress.say(&format!("round {}: {}", round + 1, peer.name()));
            if row.absent.is_none() && row.failures.len() < MAX_FAILURES {
                let turn = peer.turn(pair, settings, watch);
                watch.check()?;
                row.take(round, turn);
            }
            progress.done();
        }
    }
    Ok(())
}
