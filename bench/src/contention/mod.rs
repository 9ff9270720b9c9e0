//! Many clients and one server, after AM-II's Figures 7 to 11: the server's rate, each client's share of it, the round trip
//! by the number of clients, and what a client that floods takes from the others.

mod report;

use std::ops::RangeInclusive;

use crate::cli::Clients;
use crate::error::Error;
use crate::hosts::host::WORD_BYTES;
use crate::hosts::{Arena, HostPlan, Span, Tally, Wait, check};
use crate::progress::Progress;
use crate::stats::{Spread, median};

pub(crate) use report::Contention;

/// More than any credit allows.
const UNLIMITED: u32 = u32::MAX;
/// The requests in flight of a client that does not flood.
const MODEST: u32 = 8;
/// The connections of a client that floods by many.
const FLOOD_CONNECTIONS: usize = 8;
/// The numbers of clients of a flood: enough others that it could harm, and that each of them has a few credits.
const FLOODED: RangeInclusive<usize> = 4..=16;

/// How the server serves its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Server {
    /// One endpoint for all clients
    One,
    /// An endpoint for each client; one thread polls them as a set
    Polled,
    /// A node, an interface and a thread for each client; the thread sleeps while it waits
    Threads,
}

impl Server {
    pub(crate) const ALL: [Server; 3] = [Server::One, Server::Polled, Server::Threads];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Server::One => "one",
            Server::Polled => "polled",
            Server::Threads => "threads",
        }
    }

    /// The hosts, the clients last. `outstanding` is the most requests in flight of a client; `connections` its connections.
    fn plans(self, clients: usize, size: usize, load: impl Fn(usize) -> (u32, usize)) -> Vec<HostPlan> {
        let server = HostPlan { name: "server".to_owned(), size, wait: Wait::Poll, ..HostPlan::default() };
        let mut plans = match self {
            Server::One => vec![HostPlan { endpoints: vec!["all".to_owned()], ..server }],
            Server::Polled => {
                vec![HostPlan { endpoints: (0..clients).map(|nth| format!("for{nth}")).collect(), ..server }]
            }
            Server::Threads => (0..clients)
                .map(|nth| HostPlan {
                    name: format!("server{nth}"),
                    endpoints: vec!["all".to_owned()],
                    port: if nth == 0 { 0 } else { clients + nth },
                    wait: Wait::Block,
                    ..server.clone()
                })
                .collect(),
        };
        let client = |nth: usize| {
            let to = match self {
                Server::One => ("server".to_owned(), "all".to_owned()),
                Server::Polled => ("server".to_owned(), format!("for{nth}")),
                Server::Threads => (format!("server{nth}"), "all".to_owned()),
            };
            let (outstanding, connections) = load(nth);
            HostPlan {
                name: format!("client{nth}"),
                endpoints: vec!["main".to_owned()],
                targets: vec![to; connections],
                size,
                outstanding,
                port: nth + 1,
                ..HostPlan::default()
            }
        };
        plans.extend((0..clients).map(client));
        plans
    }
}

/// How a client floods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flood {
    /// By one connection, on which it sends whenever it has credit.
    Window,
    /// By many such connections.
    Connections,
}

impl Flood {
    const ALL: [Flood; 2] = [Flood::Window, Flood::Connections];

    const fn name(self) -> &'static str {
        match self {
            Flood::Window => "window",
            Flood::Connections => "connections",
        }
    }
}

/// What is measured.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) servers: Vec<Server>,
    pub(crate) clients: Clients,
    pub(crate) sizes: Vec<usize>,
    pub(crate) rounds: usize,
    pub(crate) span: Span,
}

/// One server, size and number of clients, in one round.
#[derive(Clone, Debug)]
struct Point {
    server: Server,
    size: usize,
    clients: usize,
    /// Answered requests a second of each client, while all send as much as credits allow.
    rates: Vec<f64>,
    /// The median round trip, in nanoseconds: with one request in flight of each client, and while all send.
    round_trip: f64,
    loaded: f64,
    totals: Totals,
}

/// Of all hosts.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    rejects: u64,
    retransmitted: u64,
    returned: u64,
    /// Requests that the server received, and acknowledgements alone.
    requests: u64,
    acks: u64,
}

/// The other clients, with a client that floods and without.
#[derive(Clone, Debug)]
struct Flooded {
    server: Server,
    size: usize,
    clients: usize,
    flood: Flood,
    /// The rate of the others together, with the flood over without; and of the one that lost or won most.
    others: f64,
    worst: f64,
    /// The rate of the client that floods over the mean rate of the others.
    flooder: f64,
}

impl Order {
    /// Runs of hosts.
    pub(crate) fn count(&self) -> usize {
        let floods = if self.flooded().is_some() { 1 + Flood::ALL.len() } else { 0 };
        self.rounds * self.servers.len() * self.sizes.len() * (2 * self.clients.0.len() + floods)
    }

    /// The number of clients of a flood.
    fn flooded(&self) -> Option<usize> {
        self.clients.0.iter().copied().rfind(|clients| FLOODED.contains(clients))
    }
}

/// Measure all of it, the servers in turn.
pub(crate) fn measure(order: &Order, arena: &mut dyn Arena, progress: &Progress) -> (Contention, Result<(), Error>) {
    let mut all = Contention { order: order.clone(), mode: arena.mode(), points: Vec::new(), floods: Vec::new() };
    let end = (0..order.rounds).try_for_each(|round| {
        for &size in &order.sizes {
            for &clients in &order.clients.0 {
                for nth in 0..order.servers.len() {
                    let server = order.servers[(round + nth) % order.servers.len()];
                    progress.say(&format!("{clients} clients, {size} B, {}", server.name()));
                    all.points.push(point(server, size, clients, order.span, arena, progress)?);
                }
            }
            for (&server, clients) in order.servers.iter().zip(std::iter::repeat(order.flooded())) {
                let Some(clients) = clients else { continue };
                progress.say(&format!("a flood, {size} B, {}", server.name()));
                all.floods.extend(floods(server, size, clients, order.span, arena, progress)?);
            }
        }
        Ok(())
    });
    (all, end)
}

/// Run hosts, and return the tallies of the clients.
fn clients_of(
    plans: &[HostPlan],
    clients: usize,
    span: Span,
    arena: &mut dyn Arena,
    progress: &Progress,
) -> Result<(Vec<Tally>, Totals), Error> {
    let mut tallies = arena.run(plans, span)?;
    check(&tallies)?;
    progress.done();
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum();
    let totals = Totals {
        rejects: sum(|tally| tally.rejects_sent),
        retransmitted: sum(|tally| tally.retransmitted),
        returned: sum(|tally| tally.returned),
        requests: sum(|tally| tally.requests),
        acks: tallies[..plans.len() - clients].iter().map(|tally| tally.acks).sum(),
    };
    Ok((tallies.split_off(plans.len() - clients), totals))
}

fn point(
    server: Server,
    size: usize,
    clients: usize,
    span: Span,
    arena: &mut dyn Arena,
    progress: &Progress,
) -> Result<Point, Error> {
    let mut run = |outstanding| {
        let plans = server.plans(clients, size, |_| (outstanding, 1));
        clients_of(&plans, clients, span, arena, progress)
    };
    let (loaded, totals) = run(UNLIMITED)?;
    let (alone, _) = run(1)?;
    let p50 = |tallies: &[Tally]| {
        let each: Vec<f64> = tallies.iter().map(|tally| tally.round_trips.value_at_quantile(0.5) as f64).collect();
        median(&each).unwrap_or_default()
    };
    let rates = loaded.iter().map(Tally::rate).collect();
    Ok(Point { server, size, clients, rates, round_trip: p50(&alone), loaded: p50(&loaded), totals })
}

/// The last clients are modest; the first is too, or floods.
fn floods(
    server: Server,
    size: usize,
    clients: usize,
    span: Span,
    arena: &mut dyn Arena,
    progress: &Progress,
) -> Result<Vec<Flooded>, Error> {
    let mut run = |first: (u32, usize)| -> Result<Vec<f64>, Error> {
        let plans = server.plans(clients, size, |nth| if nth == 0 { first } else { (MODEST, 1) });
        let (tallies, _) = clients_of(&plans, clients, span, arena, progress)?;
        Ok(tallies.iter().map(Tally::rate).collect())
    };
    let before = run((MODEST, 1))?;
    let flooded = |flood: Flood| {
        let connections = if flood == Flood::Connections { FLOOD_CONNECTIONS } else { 1 };
        let after = run((UNLIMITED, connections))?;
        let others: f64 = after[1..].iter().sum();
        let changes = after.iter().zip(&before).skip(1).map(|(after, before)| after / before);
        let worst = changes.max_by(|a, b| (a - 1.0).abs().total_cmp(&(b - 1.0).abs())).unwrap_or(1.0);
        let flooder = after[0] / (others / (clients - 1) as f64);
        Ok(Flooded { server, size, clients, flood, others: others / before[1..].iter().sum::<f64>(), worst, flooder })
    };
    Flood::ALL.into_iter().map(flooded).collect()
}

impl Point {
    fn aggregate(&self) -> f64 {
        self.rates.iter().sum()
    }

    /// The rates of the clients over an equal share.
    fn shares(&self) -> Option<Spread> {
        let equal = self.aggregate() / self.clients as f64;
        Spread::of(self.rates.iter().map(|rate| rate / equal))
    }
}

/// The default sizes: the paper's four words, and a KiB.
pub(crate) const SIZES: [usize; 2] = [WORD_BYTES, 1024];

#[cfg(test)]
mod tests;
