//! Many clients and one server, after AM-II's Figures 7 to 11: the server's rate, each client's share of it, the round trip
//! by the number of clients, and what a client that floods takes from the others.

#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

use clap::Args;
use serde_json::{Value, json};
use strum::VariantArray;

use crate::many::{ManyOptions, count, message};
use am_measure::chart::{self, COLOURS, Curve, Horizontal, Label, Names, Panel, RGBColor, Vertical};
use am_measure::hosts::{Arena, HostPlan, Tally, Wait, check};
use am_measure::options::usage;
use am_measure::report::{Cell, Column, Report, bytes, metric, nanoseconds, rounds, short};
use am_measure::{Amount, Error, Progress, Watch, grouped, median_of, shares};

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
        let all = Server::VARIANTS.iter().copied().filter(|server| !(is_simulated && *server == Server::Threads));
        Ok(if self.server.is_empty() { all.collect() } else { self.server.clone() })
    }

    /// Many clients and one server.
    pub fn run(&self, watch: &Watch) -> Result<(), Error> {
        let (amount, servers, many) = (self.many.amount(), self.servers()?, &self.many);
        let most = self.clients.last().copied().unwrap_or(1);
        let ports = if servers.contains(&Server::Threads) { 2 * most } else { most + 1 };
        let order = Order { servers, clients: self.clients.clone(), sizes: self.size.clone(), amount };
        let progress = Progress::new(order.count(), many.common.print.json);
        let (figures, end) = many.with_arena(ports, None, watch, |arena| {
            let (figures, end) = measure(&order, arena, &progress);
            if figures.is_empty() { end.map(|()| (figures, Ok(()))) } else { Ok((figures, end)) }
        })?;
        drop(progress);
        many.common.print.publish(figures.report(), &many.origin())?;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, strum::Display, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Server {
    /// One endpoint for all clients
    One,
    /// An endpoint for each client; one thread polls them as a set
    Polled,
    /// A node, an interface and a thread for each client; the thread sleeps while it waits
    Threads,
}

impl Server {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase", const_into_str)]
enum Flood {
    /// By one connection, on which it sends whenever it has credit.
    Window,
    /// By many such connections.
    Connections,
}

/// What is measured.
#[derive(Clone, Debug)]
struct Order {
    servers: Vec<Server>,
    clients: Vec<usize>,
    sizes: Vec<usize>,
    amount: Amount,
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
        let floods = if self.flooded().is_some() { 1 + Flood::VARIANTS.len() } else { 0 };
        self.amount.rounds * self.servers.len() * self.sizes.len() * (2 * self.clients.len() + floods)
    }

    /// The number of clients of a flood.
    fn flooded(&self) -> Option<usize> {
        self.clients.iter().copied().rfind(|clients| FLOODED.contains(clients))
    }
}

/// Measure all of it, the servers in turn.
fn measure(order: &Order, arena: &mut dyn Arena, progress: &Progress) -> (Contention, Result<(), Error>) {
    let mut all = Contention { order: order.clone(), mode: arena.mode(), points: Vec::new(), floods: Vec::new() };
    let mut runs = Runs { arena, amount: order.amount, progress };
    let end = (0..order.amount.rounds).try_for_each(|round| {
        for &size in &order.sizes {
            for &clients in &order.clients {
                for nth in 0..order.servers.len() {
                    let server = order.servers[(round + nth) % order.servers.len()];
                    progress.say(&format!("{clients} clients, {size} B, {server}"));
                    all.points.push(runs.point(server, size, clients)?);
                }
            }
            for (&server, clients) in order.servers.iter().zip(std::iter::repeat(order.flooded())) {
                let Some(clients) = clients else { continue };
                progress.say(&format!("a flood, {size} B, {server}"));
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
    amount: Amount,
    progress: &'a Progress,
}

impl Runs<'_> {
    /// Run hosts, and return the tallies of the clients.
    fn clients_of(&mut self, plans: &[HostPlan], clients: usize) -> Result<(Vec<Tally>, Totals), Error> {
        let mut tallies = self.arena.run(plans, self.amount)?;
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
        Flood::VARIANTS.iter().copied().map(flooded).collect()
    }
}

impl Point {
    fn aggregate(&self) -> f64 {
        self.rates.iter().sum()
    }
}

#[derive(Debug)]
pub(crate) struct Contention {
    order: Order,
    mode: String,
    points: Vec<Point>,
    floods: Vec<Flooded>,
}

/// All rounds of one server, size and number of clients: medians.
struct Row {
    server: Server,
    size: usize,
    clients: usize,
    aggregate: f64,
    /// The aggregate over that of one client of the same server.
    over_peak: Option<f64>,
    /// The rate of the slowest and of the fastest client over an equal share.
    share: (f64, f64),
    round_trip: f64,
    loaded: f64,
    totals: Totals,
}

/// What a curve over the clients comes to.
struct Verdict {
    server: Server,
    size: usize,
    /// The smallest aggregate of several clients over that of one.
    over_peak: Option<f64>,
    /// The smallest and the largest share of a client.
    share: (f64, f64),
    /// What one more client adds to the round trip, over the time of one request at the peak rate.
    slope_over_gap: Option<f64>,
}

const LEGEND: &str = concat!(
    "  aggregate  requests answered a second, of all clients, each with as many in flight as it has credit for\n",
    "  to peak    the aggregate over that of one client\n",
    "  share      the slowest and the fastest client, over an equal share\n",
    "  acks       frames that only acknowledge, for each request that the server received\n",
    "  RTT        the median round trip, with one request in flight of each client; loaded: while all send\n",
    "  flood      the others' rate with a client that floods, over without it. The others have at most 8 requests in\n",
    "             flight; it sends whenever it has credit, by one connection (window) or by 8 (connections)\n\n",
);

impl Contention {
    /// Whether nothing was measured.
    pub(crate) fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// By size, then by server, then by clients.
    fn rows(&self) -> Vec<Row> {
        let groups = grouped(&self.points, |point| (point.size, point.server, point.clients));
        let mut rows: Vec<Row> = groups.iter().map(|all| Row::of(all)).collect();
        let place = |size: usize| self.order.sizes.iter().position(|other| *other == size);
        rows.sort_by_key(|row| (place(row.size), self.order.servers.iter().position(|server| *server == row.server)));
        let peaks: Vec<Option<f64>> = rows.iter().map(|row| peak(row, &rows)).collect();
        rows.iter_mut().zip(peaks).for_each(|(row, peak)| row.over_peak = peak);
        rows
    }

    fn verdicts(&self, rows: &[Row]) -> Vec<Verdict> {
        let verdict = |its: &[Row]| {
            let over = its.iter().filter(|row| row.clients > 1).filter_map(|row| row.over_peak).reduce(f64::min);
            let least = its.iter().map(|row| row.share.0).fold(1.0, f64::min);
            let most = its.iter().map(|row| row.share.1).fold(1.0, f64::max);
            let slope_over_gap = slope(its).map(|slope| slope * its[0].aggregate / 1e9);
            Verdict { server: its[0].server, size: its[0].size, over_peak: over, share: (least, most), slope_over_gap }
        };
        rows.chunk_by(|a, b| (a.size, a.server) == (b.size, b.server)).map(verdict).collect()
    }

    fn report(&self) -> Report {
        let rows = self.rows();
        let title = "contention: many clients and one server, after AM-II's Figures 7 to 11";
        let mut report = Report::new("contention", title);
        report.rows(COLUMNS, &rows);
        report.lines(FLOOD, &self.floods());
        report.stamp("mode", &json!(self.mode));
        if report.is_simulated() {
            report.stamp("simulated", &json!(true));
        }
        self.sentences(&rows, &mut report);
        report.text += "\n";
        report.text += LEGEND;
        report.say(format_args!("{}, {}", rounds(self.order.amount.rounds), self.mode));
        report.say_if_simulated();
        let verdict = |verdict: &Verdict| {
            json!({
                "server": verdict.server.to_string(), "size": verdict.size, "over_peak": verdict.over_peak.map(short),
                "share": [short(verdict.share.0), short(verdict.share.1)],
                "slope_over_gap": verdict.slope_over_gap.map(short),
            })
        };
        let verdicts: Vec<Value> = self.verdicts(&rows).iter().map(verdict).collect();
        let over = |size| json!({ "size": size, "ratio": self.threads_over_polled(&rows, size).map(short) });
        let threads: Vec<Value> = self.order.sizes.iter().map(|size| over(*size)).collect();
        let rounds = self.order.amount.rounds;
        report.summary(json!({ "rounds": rounds, "servers": verdicts, "threads_over_polled": threads }));
        report
    }

    /// The peak aggregate of blocking threads over that of polled endpoints.
    fn threads_over_polled(&self, rows: &[Row], size: usize) -> Option<f64> {
        let most = |server| {
            let its = rows.iter().filter(|row| (row.size, row.server) == (size, server));
            its.map(|row| row.aggregate).reduce(f64::max)
        };
        Some(most(Server::Threads)? / most(Server::Polled)?)
    }

    /// Medians over the rounds.
    fn floods(&self) -> Vec<Flooded> {
        let middle = |all: Vec<&Flooded>| {
            let of = |figure: fn(&Flooded) -> f64| median_of(&all, figure);
            let (others, worst, flooder) = (of(|one| one.others), of(|one| one.worst), of(|one| one.flooder));
            Flooded { others, worst, flooder, ..all[0].clone() }
        };
        let groups = grouped(&self.floods, |flooded| (flooded.server, flooded.size, flooded.flood));
        groups.into_iter().map(middle).collect()
    }

    fn sentences(&self, rows: &[Row], report: &mut Report) {
        for verdict in self.verdicts(rows) {
            let Verdict { server, size, over_peak, share, slope_over_gap } = verdict;
            let part = |ratio: Option<f64>| ratio.map_or("?".to_owned(), |ratio| format!("{ratio:.2}"));
            let (server, size, peak, gaps) = (server.to_string(), bytes(size), part(over_peak), part(slope_over_gap));
            report.say(format_args!(
                "  {server}, {size}: aggregate at least {peak} of the peak, clients from {:.2} to {:.2} of an equal share, RTT grows by {gaps} gaps a client",
                share.0, share.1
            ));
        }
        for size in &self.order.sizes {
            if let Some(ratio) = self.threads_over_polled(rows, *size) {
                let size = bytes(*size);
                report.say(format_args!("  {size}: blocking threads reach {ratio:.2} of the polled peak"));
            }
        }
        for Flooded { server, size, clients, flood, others, worst, flooder } in self.floods() {
            let how = if flood == Flood::Window { "by one connection" } else { "by several" };
            let (server, size) = (server.to_string(), bytes(size));
            report.say(format_args!(
                "  {server}, {size}, {clients} clients: one floods {how} and has {flooder:.1} times the mean of the others, who keep {others:.2} of their rate (the worst {worst:.2})"
            ));
        }
    }

    /// The rate of each size, and the round trip, over the number of clients.
    pub(crate) fn svg(&self) -> Result<String, Error> {
        let rows = self.rows();
        let mut panels = Vec::new();
        for size in &self.order.sizes {
            let of: Vec<&Row> = rows.iter().filter(|row| row.size == *size).collect();
            panels.push(self.panel(format!("{} requests: all clients, and one", bytes(*size)), &of, true));
        }
        let small: Vec<&Row> = rows.iter().filter(|row| Some(&row.size) == self.order.sizes.first()).collect();
        panels.push(self.panel("round trip, one request in flight of each".to_owned(), &small, false));
        chart::svg(&format!("contention: {}", self.mode), &[panels], 560, 480)
    }

    fn panel(&self, title: String, rows: &[&Row], is_rate: bool) -> Panel<'static> {
        let curves: Vec<Curve> = Server::VARIANTS
            .iter()
            .zip(COLOURS)
            .flat_map(|(server, colour)| {
                let its: Vec<&Row> = rows.iter().copied().filter(|row| row.server == *server).collect();
                if its.is_empty() { Vec::new() } else { drawn(&its, &server.to_string(), colour, is_rate) }
            })
            .collect();
        let label: Label<'_> =
            if is_rate { &|rate| format!("{}/s", metric(rate)) } else { &|ns| nanoseconds(ns.round() as u64) };
        // Labels of more would overlap.
        let counts = self.order.clients.iter();
        let counts = counts.filter(|count| self.order.clients.len() <= 6 || count.is_power_of_two());
        let x = Horizontal("clients", counts.map(|count| *count as f64).collect(), &|count| format!("{count:.0}"));
        Panel::new(title, curves, Names::AtEnds, x, Vertical::Decades(label))
    }
}

/// The aggregate and one client's rate, with the slowest and the fastest client; or the round trip.
fn drawn(rows: &[&Row], name: &str, colour: RGBColor, is_rate: bool) -> Vec<Curve> {
    let curve = |name: String, of: &dyn Fn(&Row) -> f64, bars: Vec<(f64, f64, f64)>| Curve {
        bars,
        ..Curve::line(name, colour, rows.iter().map(|row| (row.clients as f64, of(row))))
    };
    if !is_rate {
        return vec![curve(name.to_owned(), &|row| row.round_trip, Vec::new())];
    }
    let bar = |row: &&Row| (row.clients as f64, row.share.0 * row.mean(), row.share.1 * row.mean());
    vec![
        curve(format!("{name}: all"), &|row| row.aggregate, Vec::new()),
        curve(format!("{name}: one"), &Row::mean, rows.iter().map(bar).collect()),
    ]
}

const COLUMNS: &[Column<Row>] = &[
    ("server", "server", |row| Cell::text(row.server.to_string())),
    (">size", "size", |row| Cell::Size(row.size)),
    (">clients", "clients", |row| Cell::Count(row.clients as u64)),
    (">aggregate", "messages_per_s", |row| Cell::Rate(row.aggregate, "/s")),
    ("", "bytes_per_s", |row| Cell::Rate(row.aggregate * row.size as f64, "B/s")),
    (">to peak", "over_peak", |row| Cell::of(row.over_peak, Cell::Ratio)),
    (">a client", "", |row| Cell::Rate(row.mean(), "/s")),
    ("", "client_per_s", |row| {
        Cell::Json(json!([1.0, row.share.0, row.share.1].map(|share| (share * row.mean()).round() as u64)))
    }),
    (">share", "share", |row| Cell::Range(row.share.0, row.share.1)),
    (">RTT", "rtt_ns", |row| Cell::Time(row.round_trip)),
    (">loaded", "loaded_rtt_ns", |row| Cell::Time(row.loaded)),
    (">rejects", "rejects", |row| Cell::Count(row.totals.rejects)),
    (">sent again", "retransmitted", |row| Cell::Count(row.totals.retransmitted)),
    ("", "returned", |row| Cell::Count(row.totals.returned)),
    (">acks", "acks_per_request", |row| Cell::Ratio(row.totals.acks as f64 / row.totals.requests.max(1) as f64)),
];

const FLOOD: &[Column<Flooded>] = &[
    ("", "server", |flooded| Cell::text(flooded.server.to_string())),
    ("", "clients", |flooded| Cell::Count(flooded.clients as u64)),
    ("", "size", |flooded| Cell::Size(flooded.size)),
    ("", "flood", |flooded| Cell::text(flooded.flood.into_str())),
    ("", "others", |flooded| Cell::Ratio(flooded.others)),
    ("", "worst", |flooded| Cell::Ratio(flooded.worst)),
    ("", "flooder", |flooded| Cell::Ratio(flooded.flooder)),
];

impl Row {
    /// Medians of the points of all rounds.
    fn of(all: &[&Point]) -> Row {
        let &&Point { server, size, clients, .. } = &all[0];
        let sum = |of: fn(&Totals) -> u64| all.iter().map(|point| of(&point.totals)).sum();
        Row {
            server,
            size,
            clients,
            aggregate: median_of(all, Point::aggregate),
            over_peak: None,
            share: (median_of(all, |point| shares(&point.rates).0), median_of(all, |point| shares(&point.rates).1)),
            round_trip: median_of(all, |point| point.round_trip),
            loaded: median_of(all, |point| point.loaded),
            totals: Totals {
                rejects: sum(|all| all.rejects),
                retransmitted: sum(|all| all.retransmitted),
                returned: sum(|all| all.returned),
                requests: sum(|all| all.requests),
                acks: sum(|all| all.acks),
            },
        }
    }

    /// The rate of one client.
    fn mean(&self) -> f64 {
        self.aggregate / self.clients as f64
    }
}

/// The aggregate over that of one client of the same server.
fn peak(row: &Row, rows: &[Row]) -> Option<f64> {
    let alone = rows.iter().find(|other| (other.server, other.size, other.clients) == (row.server, row.size, 1))?;
    Some(row.aggregate / alone.aggregate).filter(|ratio| ratio.is_finite())
}

/// Nanoseconds of the round trip that one more client adds, between the two largest numbers of clients.
fn slope(rows: &[Row]) -> Option<f64> {
    let [.., before, last] = rows else { return None };
    Some((last.round_trip - before.round_trip) / (last.clients - before.clients).max(1) as f64)
}
