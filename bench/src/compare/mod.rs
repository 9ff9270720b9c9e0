//! Our stack compared with its alternatives, on the same wire, in turn.
//!
//! ```text
//!   peers.rs ─▶ each Peer: is it there? ─▶ rounds: each has its turn ─▶ rows.rs ─▶ table, json, plot
//!                  │                          │
//!                  │       house.rs   sessions, as the other commands have them: am, kernel UDP and TCP
//!                  └────── others.rs  programs that were not written here, each turn in a sandbox of its own
//! ```
//!
//! A peer that is not installed, or does not run, has a row with the reason.
//!
//! Read first: [`peer`], then [`rows`]; for foreign programs [`foreign`], then `bench/peers/peer.sh`.

mod apart;
mod families;
mod house;
mod json;
mod offload;
mod others;
mod over;
mod peer;
mod peers;
mod plot;
mod rows;
mod subprocess;
mod table;

use std::fs;
use std::time::Duration;

use crate::cli::{Options, Wanted};
use crate::cores::Cores;
use crate::deploy::joined::Joint;
use crate::deploy::veth::{Pair, check_mtu};
use crate::error::Error;
use crate::origin::Origin;
use crate::out::note;
use crate::plan::FramingArg;
use crate::progress::Progress;
use crate::size::Size;
use crate::tell;
use crate::via::Via;
use crate::watch::Watch;

use offload::Offload;
use peer::{Asked, Peer};
use rows::{Comparison, Row};

/// The default number of rounds.
const ROUNDS: usize = 3;
/// The default length of a measurement.
const TIME: Duration = Duration::from_millis(100);
/// The default sizes: from a word to a megabyte.
const SIZES: [usize; 7] = [8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20];
/// A peer that failed so often gets no more turns.
const FAILURES: usize = 2;

/// Measure all rows in turn, and print the result.
///
/// # Errors
/// The wire cannot be made, or a signal arrived. The failure of a peer is no error.
pub(crate) fn run(wanted: &Wanted, options: &Options, watch: &Watch) -> Result<(), Error> {
    check_mtu(wanted.mtu, &[Via::Am])?;
    let asked = asked(wanted, options)?;
    let peers = peers::chosen(&wanted.peers, wanted.over)?;
    let pair = Pair::new(wanted.mtu)?;
    let offload = Offload::of(&pair);
    let mut rows: Vec<Row> = peers.iter().map(|peer| Row::new(peer.as_ref(), &asked, watch)).collect();
    watch.check()?;
    announce(&peers, &rows, &asked);
    let end = rounds(&peers, &mut rows, &pair, &asked, options.json, watch);
    let origin = Origin::new(wanted.over.map_or("all", Joint::name), Some(wanted.mtu));
    let comparison = Comparison { rows, asked, offload };
    tell(comparison.json(), || comparison.table(), &origin, options)?;
    if let Some(file) = &wanted.plot {
        fs::write(file, comparison.svg()?).map_err(Error::system("writing the plot"))?;
    }
    end
}

fn asked(wanted: &Wanted, options: &Options) -> Result<Asked, Error> {
    let mut amount = options.amount(TIME);
    amount.rounds = options.rounds.unwrap_or(ROUNDS);
    let mut sizes: Vec<usize> = options.size.iter().filter_map(bytes).collect();
    if sizes.is_empty() {
        sizes = SIZES.to_vec();
    }
    sizes.sort_unstable();
    sizes.dedup();
    let cores = Cores::both(options.cores.unwrap_or_default())?;
    Ok(Asked {
        sizes,
        amount,
        limit: wanted.limit,
        cores,
        how: options.how(FramingArg::Bare),
        mtu: wanted.mtu as usize,
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
    apart::serve(|name, pair, asked| house::named(name)?.turn_here(pair, asked, watch), watch)
}

/// Print how long it will take.
fn announce(peers: &[Box<dyn Peer>], rows: &[Row], asked: &Asked) {
    let there = peers.iter().zip(rows).filter(|(_, row)| row.absent.is_none());
    let turns: Vec<Duration> = there.map(|(peer, _)| peer.takes(asked)).collect();
    let all = turns.iter().sum::<Duration>() * asked.amount.rounds as u32;
    let (count, rounds) = (turns.len(), crate::report::words::rounds(asked.amount.rounds));
    note(&format!("{count} of {} peers are here; about {} s for {rounds} of them", rows.len(), all.as_secs().max(1)));
}

/// Every peer takes a turn in every round. Each round begins with another peer.
fn rounds(
    peers: &[Box<dyn Peer>],
    rows: &mut [Row],
    pair: &Pair,
    asked: &Asked,
    quiet: bool,
    watch: &Watch,
) -> Result<(), Error> {
    let progress = Progress::new(peers.len() * asked.amount.rounds, quiet);
    for round in 0..asked.amount.rounds {
        for nth in 0..peers.len() {
            let nth = (nth + round) % peers.len();
            let (peer, row) = (&peers[nth], &mut rows[nth]);
            progress.say(&format!("round {}: {}", round + 1, peer.name()));
            if row.absent.is_none() && row.failures.len() < FAILURES {
                let turn = peer.turn(pair, asked, watch);
                watch.check()?;
                row.take(round, turn);
            }
            progress.done();
        }
    }
    Ok(())
}
