//! Turns of our rows: the sessions of the other commands.
//!
//! A process starts DPDK once, and cannot end it. So a turn over DPDK has its own process:
//!
//! ```text
//!   am-bench compare           am-bench turn: the near side              am-bench far
//!     │ which row, on which      │ a session as any other                   │
//!     │ two hosts ──────────────▶│ ────────────── frames ──────────────────▶│
//!     │◀─────────── what it took │
//!     └─ is gone: so are they
//! ```

use std::env::current_exe;
use std::io;
use std::process::{Command, Output};
use std::time::Duration;

use am_netns::Host;
use am_wire::Framing;

use super::offload::{self, Offload};
use super::peer::{PEERS, Peer, Source, Wire};
use super::rows::{Figures, Settings, Turn};
use am_measure::deploy::{Far, Lines, Pair, write_line};
use am_measure::sandbox::run;
use am_measure::{
    Amount, Bench, Driver, DriverOptions, Error, Loss, Measured, Order, Outcome, Progress, Setup, Size, Watch,
};

/// How this program's own errors begin.
const ERROR_PREFIX: &str = "am-bench: ";

/// What the process of a turn has to know: the row, and the paths of the near and the far network namespace.
type TurnOrder = (String, Settings, [String; 2]);

/// Run this row's turn in its own process.
pub(super) fn turn_in_a_process(name: &str, pair: &Pair, settings: &Settings, watch: &Watch) -> Result<Turn, Error> {
    let order: TurnOrder = (name.to_owned(), settings.clone(), pair.hosts.each_ref().map(Host::path));
    let mut line = Vec::new();
    write_line(&mut line, &order)?;
    let mut command = Command::new(current_exe().map_err(Error::system("finding this program"))?);
    let Output { stdout, stderr, .. } = run(command.arg("turn"), &line, settings.limit, watch)?;
    let answer = stdout.split(|byte| *byte == b'\n').next().and_then(|line| serde_json::from_slice(line).ok());
    let turn = answer.unwrap_or_else(|| Err("its process was ended before it was done".to_owned()));
    turn.map_err(|why: String| Error::Facility(with_reasons(why, &String::from_utf8_lossy(&stderr))))
}

/// The reason, with those that both sides' processes wrote. DPDK's libraries write messages that no user needs.
fn with_reasons(why: String, said: &str) -> String {
    let ours = said.lines().filter_map(|line| line.strip_prefix(ERROR_PREFIX)).filter(|line| *line != why);
    [why.as_str()].into_iter().chain(ours).collect::<Vec<_>>().join("; ")
}

/// Be the process that runs one row's turn. A turn that failed is an answer, not an error.
pub(crate) fn take_turn(watch: &Watch) -> Result<(), Error> {
    let orders: Lines<TurnOrder> = Lines::from_parent(watch);
    let Some((name, settings, [near, far])) = orders.next(Duration::MAX, watch)? else { return Ok(()) };
    let pair = Pair { hosts: [Host::at("alpha", &near)?, Host::at("beta", &far)?], _switch: None };
    let turn = match PEERS.iter().find(|peer| peer.name == name) {
        Some(peer @ Peer { source: Source::Session(driver), .. }) => turn(peer, *driver, &pair, &settings, watch),
        _ => Err(Error::Usage(format!("no row {name}"))),
    };
    write_line(&mut io::stdout(), &turn.map_err(|why| why.to_string()))
}

/// Measure everything once, in this process.
pub(super) fn turn(
    peer: &Peer,
    driver: Driver,
    pair: &Pair,
    settings: &Settings,
    watch: &Watch,
) -> Result<Turn, Error> {
    if !peer.is_without_offload() {
        return session(peer, driver, pair, settings, watch);
    }
    let turn = offload::switch(pair, "off").and_then(|()| session(peer, driver, pair, settings, watch));
    let offload = Offload::of(pair).map_or(String::new(), |offload| format!(", {}", offload.words()));
    // A cable on which it can be switched off lets it be switched on.
    let _ = offload::switch(pair, "on");
    turn.map(|turn| Turn { mode: turn.mode + &offload, ..turn })
}

fn session(peer: &Peer, driver: Driver, pair: &Pair, settings: &Settings, watch: &Watch) -> Result<Turn, Error> {
    let order = Order {
        drivers: vec![driver],
        may_skip_udp: false,
        benches: benches(peer, driver, settings),
        losses: vec![Loss::NONE],
        singly: vec![],
        how: DriverOptions { coalesce: peer.name.ends_with("-bundles"), ..settings.how },
        amount: Amount { rounds: 1, ..settings.amount },
    };
    let progress = Progress::new(0, true);
    // Kernel sockets are on the interface itself.
    let ends = if driver.is_kernel() { Wire::Interface } else { peer.wire }.ends(settings.mtu)?;
    let ([near, far], [here, there]) = (&pair.hosts, &ends.names);
    let setup = Setup { order: &order, cores: settings.cores, progress: &progress, watch };
    let far = far.enter(|| Far::start(there, settings.cores, watch))??;
    let session = near.enter(|| far.measure(here, setup))??;
    session.end.map(|()| figures(&session.all))
}

/// Every size both as a round trip and one way.
fn benches(peer: &Peer, driver: Driver, settings: &Settings) -> Vec<(Bench, Vec<Size>)> {
    let whole = |sizes: &[usize]| sizes.iter().copied().map(Size::Whole).collect::<Vec<_>>();
    if driver != Driver::Am {
        return vec![(Bench::Latency, whole(&settings.sizes)), (Bench::Rate, whole(&settings.sizes))];
    }
    // The cost of the framing is unknown until the driver is open, so assume the largest.
    let framing = settings.how.framing.fixed().unwrap_or(Framing::Plain);
    let most = peer.wire.most(settings.mtu).saturating_sub(framing.cost());
    // They are sorted. What exceeds a frame is a bulk transfer.
    let (small, large) = settings.sizes.split_at(settings.sizes.partition_point(|size| *size <= most));
    let large: Vec<Size> = large.iter().copied().map(Size::Bulk).collect();
    vec![
        (Bench::Latency, whole(small)),
        (Bench::Volley, large.clone()),
        (Bench::Rate, whole(small)),
        (Bench::Bulk, large),
    ]
}

fn figures(all: &[Measured]) -> Turn {
    let figures = |one: &Measured| {
        let size = one.layout.size;
        match &one.outcome {
            Outcome::Latency(latency) => {
                let half = |quantile| Some(latency.round_trips.value_at_quantile(quantile) as f64 / 2.0);
                let mean = Some(latency.round_trips.mean() / 2.0);
                Figures { size, p50: half(0.5), p99: half(0.99), mean, ..Figures::default() }
            }
            // The compared benches have rates where they have no round trips.
            Outcome::Throughput(_) | Outcome::LogP(_) => {
                let messages = one.rates().map_or(0.0, |rates| rates.messages);
                let cpu = one.busy.map(|cores| cores * 1e9 / messages).filter(|cpu| cpu.is_finite());
                let (messages, batching) = (Some(messages), Some(one.batching));
                Figures { size, messages, cpu, lost: one.lost(), batching, ..Figures::default() }
            }
        }
    };
    let mode = all.first().map_or(String::new(), |one| one.mode.clone());
    Turn { mode, all: all.iter().map(figures).collect() }
}

#[cfg(test)]
mod tests {

    use super::*;
    use am_measure::measured;

    #[test]
    fn a_round_trip_is_halved_and_busy_cores_are_shared_among_messages() {
        let all = [
            measured(Bench::Latency, 0, Driver::Udp, 0, 14_000),
            Measured { busy: Some(2.0), ..measured(Bench::Rate, 0, Driver::Udp, 0, 100_000) },
        ];
        let turn = figures(&all);
        assert!((turn.all[0].p50.unwrap() - 7_000.0).abs() < 10.0, "{turn:?}");
        assert_eq!((turn.all[1].messages, turn.all[1].cpu), (Some(100_000.0), Some(20_000.0)));
        assert_eq!(turn.mode, "veth copy");
    }
}
