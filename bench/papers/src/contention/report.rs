//! The table, the lines of JSON, and the plot.

use std::fmt::Write;

use serde_json::{Value, json};

use am_measure::chart::{self, COLOURS, Curve, Horizontal, Label, Names, Panel, RGBColor, Vertical};
use am_measure::error::Error;
use am_measure::report::columns::{Cell, Column, bytes, lines, metric, nanoseconds, short, summed, table};
use am_measure::report::words::{SIMULATED, is_simulated, rounds};
use am_measure::spread::{Spread, median};

use super::{Flood, Flooded, Order, Point, Server, Totals};

#[derive(Debug)]
pub(crate) struct Contention {
    pub(super) order: Order,
    pub(super) mode: String,
    pub(super) points: Vec<Point>,
    pub(super) floods: Vec<Flooded>,
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

    fn rows(&self) -> Vec<Row> {
        let Order { servers, sizes, clients, .. } = &self.order;
        let each = sizes.iter().flat_map(|size| servers.iter().map(move |server| (*size, *server)));
        let each = each.flat_map(|(size, server)| clients.iter().map(move |clients| (size, server, *clients)));
        let mut rows: Vec<Row> = each.filter_map(|(size, server, clients)| self.row(size, server, clients)).collect();
        let peaks: Vec<Option<f64>> = rows.iter().map(|row| peak(row, &rows)).collect();
        rows.iter_mut().zip(peaks).for_each(|(row, peak)| row.over_peak = peak);
        rows
    }

    fn row(&self, size: usize, server: Server, clients: usize) -> Option<Row> {
        let is = |point: &&Point| (point.size, point.server, point.clients) == (size, server, clients);
        let all: Vec<&Point> = self.points.iter().filter(is).collect();
        let middle = |of: &dyn Fn(&Point) -> f64| median(&all.iter().map(|point| of(point)).collect::<Vec<_>>());
        let share = |of: fn(Spread) -> f64| middle(&|point| point.shares().map_or(1.0, of));
        Some(Row {
            server,
            size,
            clients,
            aggregate: middle(&Point::aggregate)?,
            over_peak: None,
            share: (share(|share| share.least)?, share(|share| share.most)?),
            round_trip: middle(&|point| point.round_trip)?,
            loaded: middle(&|point| point.loaded)?,
            totals: all.iter().fold(Totals::default(), |sum, point| sum.plus(point.totals)),
        })
    }

    fn verdicts(&self, rows: &[Row]) -> Vec<Verdict> {
        let Order { servers, sizes, .. } = &self.order;
        let each = sizes.iter().flat_map(|size| servers.iter().map(move |server| (*size, *server)));
        each.filter_map(|(size, server)| {
            let its: Vec<&Row> = rows.iter().filter(|row| (row.size, row.server) == (size, server)).collect();
            let over = Spread::of(its.iter().filter(|row| row.clients > 1).filter_map(|row| row.over_peak));
            let share = its
                .iter()
                .fold((1.0, 1.0), |(least, most): (f64, f64), row| (least.min(row.share.0), most.max(row.share.1)));
            let slope_over_gap = slope(&its).zip(its.first()).map(|(slope, first)| slope * first.aggregate / 1e9);
            its.first()?;
            Some(Verdict { server, size, over_peak: over.map(|over| over.least), share, slope_over_gap })
        })
        .collect()
    }

    pub(crate) fn json(&self) -> Vec<Value> {
        let rows = self.rows();
        let mut all = lines("contention", COLUMNS, &rows);
        all.extend(lines("contention", FLOOD, &self.floods()));
        for line in &mut all {
            line["mode"] = json!(self.mode);
            if self.is_simulated() {
                line["simulated"] = json!(true);
            }
        }
        let verdict = |verdict: &Verdict| {
            json!({
                "server": verdict.server.name(), "size": verdict.size, "over_peak": verdict.over_peak.map(short),
                "share": [short(verdict.share.0), short(verdict.share.1)],
                "slope_over_gap": verdict.slope_over_gap.map(short),
            })
        };
        let verdicts: Vec<Value> = self.verdicts(&rows).iter().map(verdict).collect();
        let over = |size| json!({ "size": size, "ratio": self.threads_over_polled(&rows, size).map(short) });
        let threads: Vec<Value> = self.order.sizes.iter().map(|size| over(*size)).collect();
        let summary = json!({ "rounds": self.order.rounds, "servers": verdicts, "threads_over_polled": threads });
        summed(all, "contention", None, self.is_simulated(), summary)
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
        let mut floods: Vec<Flooded> = Vec::new();
        for one in &self.floods {
            let key = |flooded: &Flooded| (flooded.server, flooded.size, flooded.flood);
            if floods.iter().any(|known| key(known) == key(one)) {
                continue;
            }
            let middle = |of: fn(&Flooded) -> f64| {
                let all: Vec<f64> = self.floods.iter().filter(|other| key(other) == key(one)).map(of).collect();
                median(&all).unwrap_or(1.0)
            };
            let (others, worst) = (middle(|one| one.others), middle(|one| one.worst));
            floods.push(Flooded { others, worst, flooder: middle(|one| one.flooder), ..one.clone() });
        }
        floods
    }

    fn is_simulated(&self) -> bool {
        is_simulated(&self.mode)
    }

    pub(crate) fn table(&self) -> String {
        let rows = self.rows();
        let mut text = "contention: many clients and one server, after AM-II's Figures 7 to 11\n\n".to_owned();
        table(COLUMNS, &rows, &mut text);
        self.sentences(&rows, &mut text);
        let simulated = if self.is_simulated() { format!("{SIMULATED}\n") } else { String::new() };
        text + "\n" + LEGEND + &format!("{}, {}\n", rounds(self.order.rounds), self.mode) + &simulated
    }

    fn sentences(&self, rows: &[Row], text: &mut String) {
        // Writing to a string cannot fail.
        for verdict in self.verdicts(rows) {
            let Verdict { server, size, over_peak, share, slope_over_gap } = verdict;
            let part = |ratio: Option<f64>| ratio.map_or("?".to_owned(), |ratio| format!("{ratio:.2}"));
            let _ = writeln!(
                text,
                "  {}, {}: aggregate at least {} of the peak, clients from {:.2} to {:.2} of an equal share, RTT grows by {} gaps a client",
                server.name(),
                bytes(size),
                part(over_peak),
                share.0,
                share.1,
                part(slope_over_gap)
            );
        }
        for size in &self.order.sizes {
            if let Some(ratio) = self.threads_over_polled(rows, *size) {
                let _ = writeln!(text, "  {}: blocking threads reach {ratio:.2} of the polled peak", bytes(*size));
            }
        }
        for Flooded { server, size, clients, flood, others, worst, flooder } in self.floods() {
            let how = if flood == Flood::Window { "by one connection" } else { "by several" };
            let _ = writeln!(
                text,
                "  {}, {}, {clients} clients: one floods {how} and has {flooder:.1} times the mean of the others, who keep {others:.2} of their rate (the worst {worst:.2})",
                server.name(),
                bytes(size)
            );
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
        let curves: Vec<Curve> = Server::ALL
            .iter()
            .zip(COLOURS)
            .flat_map(|(server, colour)| {
                let its: Vec<&Row> = rows.iter().copied().filter(|row| row.server == *server).collect();
                if its.is_empty() { Vec::new() } else { drawn(&its, server.name(), colour, is_rate) }
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

impl Totals {
    fn plus(self, other: Totals) -> Totals {
        Totals {
            rejects: self.rejects + other.rejects,
            retransmitted: self.retransmitted + other.retransmitted,
            returned: self.returned + other.returned,
            requests: self.requests + other.requests,
            acks: self.acks + other.acks,
        }
    }

    fn acks_per_request(&self) -> f64 {
        self.acks as f64 / self.requests.max(1) as f64
    }
}

const COLUMNS: &[Column<Row>] = &[
    ("server", "server", |row| Cell::text(row.server.name())),
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
    (">acks", "acks_per_request", |row| Cell::Ratio(row.totals.acks_per_request())),
];

const FLOOD: &[Column<Flooded>] = &[
    ("", "server", |flooded| Cell::text(flooded.server.name())),
    ("", "clients", |flooded| Cell::Count(flooded.clients as u64)),
    ("", "size", |flooded| Cell::Size(flooded.size)),
    ("", "flood", |flooded| Cell::text(flooded.flood.name())),
    ("", "others", |flooded| Cell::Ratio(flooded.others)),
    ("", "worst", |flooded| Cell::Ratio(flooded.worst)),
    ("", "flooder", |flooded| Cell::Ratio(flooded.flooder)),
];

impl Row {
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
fn slope(rows: &[&Row]) -> Option<f64> {
    let [.., before, last] = rows else { return None };
    Some((last.round_trip - before.round_trip) / (last.clients - before.clients).max(1) as f64)
}
