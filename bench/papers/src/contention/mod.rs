//! Many clients and one server, after AM-II's Figures 7 to 11: the server's rate, each client's share of it, the round trip
//! by the number of clients, and what a client that floods takes from the others.

mod report;

use std::ops::RangeInclusive;

use clap::Args;

use crate::many::{ManyOptions, count, message};
use am_measure::error::Error;
use am_measure::hosts::{Arena, HostPlan, Span, Tally, Wait, check};
use am_measure::options::usage;
use am_measure::progress::Progress;
use am_measure::spread::median_of;
use am_measure::watch::Watch;

use report::Contention;

/// The options of `contention`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("time", |time| time.default_value("0.2").default_value_if("hosts", "sim", "0.01").help(
    "Length of one measurement; 0.01 with --hosts sim, in virtual time")))]
#[command(mut_arg("plot", |plot| plot.help("Plot rates and round trips over the number of clients, as SVG")))]
pub struct ContentionArgs {
    /// Numbers of clients; with --hosts sim 1,2,4,8,16,32,64,92,128,256
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2,4,8,16", value_parser = count(),
          default_value_if("hosts", "sim", "1,2,4,8,16,32,64,92,128,256"))]
    pub clients: Vec<usize>,
    /// How the server serves its clients [default: all; with --hosts sim all but threads, which need a machine]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SERVER,...")]
    server: Vec<Server>,
    /// Bytes of a message, 16 or more
    #[arg(long, value_delimiter = ',', default_value = "16,1024", value_parser = message, value_name = "BYTES,...",
          help_heading = "What")]
    pub size: Vec<usize>,
    #[command(flatten)]
    many: ManyOptions,
}

impl ContentionArgs {
    /// The ways to serve, after all checks.
    pub fn servers(&self) -> Result<Vec<Server>, Error> {
        self.many.check("--clients", &self.clients)?;
        let is_simulated = self.many.is_simulated();
        if is_simulated && self.server.contains(&Server::Threads) {
            return Err(usage("--server threads needs real threads: give --hosts veth, or omit it"));
        }
        let all = Server::ALL.into_iter().filter(|server| !(is_simulated && *server == Server::Threads));
        Ok(if self.server.is_empty() { all.collect() } else { self.server.clone() })
    }

    /// Many clients and one server.
    pub fn run(&self, watch: &Watch) -> Result<(), Error> {
        let ((rounds, span), servers, many) = (self.many.rounds(), self.servers()?, &self.many);
        let most = self.clients.last().copied().unwrap_or(1);
        let ports = if servers.contains(&Server::Threads) { 2 * most } else { most + 1 };
        let order = Order { servers, clients: self.clients.clone(), sizes: self.size.clone(), rounds, span };
        let progress = Progress::new(order.count(), many.common.print.json);
        let (figures, end) = many.with_arena(ports, None, watch, |arena| {
            let (figures, end) = measure(&order, arena, &progress);
            if figures.is_empty() { end.map(|()| (figures, Ok(()))) } else { Ok((figures, end)) }
        })?;
        drop(progress);
        many.common.print.publish(figures.json(), || figures.table(), &many.origin())?;
        many.plot.write(|| figures.svg())?;
        end
    }
}

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
pub enum Server {
    /// One endpoint for all clients
    One,
    /// An endpoint for each client; one thread polls them as a set
    Polled,
    /// A node, an interface and a thread for each client; the thread sleeps while it waits
    Threads,
}

impl Server {
    /// Every way.
    pub const ALL: [Server; 3] = [Server::One, Server::Polled, Server::Threads];

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
struct Order {
    pub(crate) servers: Vec<Server>,
    pub(crate) clients: Vec<usize>,
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
        self.rounds * self.servers.len() * self.sizes.len() * (2 * self.clients.len() + floods)
    }

    /// The number of clients of a flood.
    fn flooded(&self) -> Option<usize> {
        self.clients.iter().copied().rfind(|clients| FLOODED.contains(clients))
    }
}

/// Measure all of it, the servers in turn.
fn measure(order: &Order, arena: &mut dyn Arena, progress: &Progress) -> (Contention, Result<(), Error>) {
    let mut all = Contention { order: order.clone(), mode: arena.mode(), points: Vec::new(), floods: Vec::new() };
    let mut runs = Runs { arena, span: order.span, progress };
    let end = (0..order.rounds).try_for_each(|round| {
        for &size in &order.sizes {
            for &clients in &order.clients {
                for nth in 0..order.servers.len() {
                    let server = order.servers[(round + nth) % order.servers.len()];
                    progress.say(&format!("{clients} clients, {size} B, {}", server.name()));
                    all.points.push(runs.point(server, size, clients)?);
                }
            }
            for (&server, clients) in order.servers.iter().zip(std::iter::repeat(order.flooded())) {
                let Some(clients) = clients else { continue };
                progress.say(&format!("a flood, {size} B, {}", server.name()));
                all.floods.extend(runs.floods(server, size, clients)?);
            }
        }
        Ok(())
    });
    (all, end)
}

/// Where hosts run, and for how long.
struct Runs<'a> {
    arena: &'a mut dyn Arena,
    span: Span,
    progress: &'a Progress,
}

impl Runs<'_> {
    /// Run hosts, and return the tallies of the clients.
    fn clients_of(&mut self, plans: &[HostPlan], clients: usize) -> Result<(Vec<Tally>, Totals), Error> {
        let mut tallies = self.arena.run(plans, self.span)?;
        check(&tallies)?;
        self.progress.done();
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

    fn point(&mut self, server: Server, size: usize, clients: usize) -> Result<Point, Error> {
        let mut run = |outstanding| self.clients_of(&server.plans(clients, size, |_| (outstanding, 1)), clients);
        let ((loaded, totals), (alone, _)) = (run(UNLIMITED)?, run(1)?);
        let p50 = |tallies: &[Tally]| {
            median_of(&tallies.iter().collect::<Vec<_>>(), |tally| tally.round_trips.value_at_quantile(0.5) as f64)
        };
        let rates = loaded.iter().map(Tally::rate).collect();
        Ok(Point { server, size, clients, rates, round_trip: p50(&alone), loaded: p50(&loaded), totals })
    }

    /// The last clients are modest; the first is too, or floods.
    fn floods(&mut self, server: Server, size: usize, clients: usize) -> Result<Vec<Flooded>, Error> {
        let mut run = |first: (u32, usize)| -> Result<Vec<f64>, Error> {
            let plans = server.plans(clients, size, |nth| if nth == 0 { first } else { (MODEST, 1) });
            Ok(self.clients_of(&plans, clients)?.0.iter().map(Tally::rate).collect())
        };
        let before = run((MODEST, 1))?;
        let flooded = |flood: Flood| {
            let connections = if flood == Flood::Connections { FLOOD_CONNECTIONS } else { 1 };
            let after = run((UNLIMITED, connections))?;
            let others: f64 = after[1..].iter().sum();
            let changes = after.iter().zip(&before).skip(1).map(|(after, before)| after / before);
            let worst = changes.max_by(|a, b| (a - 1.0).abs().total_cmp(&(b - 1.0).abs())).unwrap_or(1.0);
            let flooder = after[0] / (others / (clients - 1) as f64);
            let others = others / before[1..].iter().sum::<f64>();
            Ok(Flooded { server, size, clients, flood, others, worst, flooder })
        };
        Flood::ALL.into_iter().map(flooded).collect()
    }
}

impl Point {
    fn aggregate(&self) -> f64 {
        self.rates.iter().sum()
    }
}

#[cfg(test)]
mod tests;
