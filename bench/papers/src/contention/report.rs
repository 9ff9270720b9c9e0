//! The table, the lines of JSON, and the plot.

use std::fmt::Write;

use serde_json::{Value, json};

use am_measure::chart::{self, COLOURS, Curve, Horizontal, Label, Names, Panel, RGBColor, Vertical};
use am_measure::error::Error;
use am_measure::report::columns::{Cell, Column, bytes, lines, metric, nanoseconds, short, summed, table};
use am_measure::report::words::{SIMULATED, is_simulated, rounds};
use am_measure::spread::{grouped, median_of, shares};

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
        let middle = |all: Vec<&Flooded>| {
            let of = |figure: fn(&Flooded) -> f64| median_of(&all, figure);
            let (others, worst, flooder) = (of(|one| one.others), of(|one| one.worst), of(|one| one.flooder));
            Flooded { others, worst, flooder, ..all[0].clone() }
        };
        let groups = grouped(&self.floods, |flooded| (flooded.server, flooded.size, flooded.flood));
        groups.into_iter().map(middle).collect()
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
    (">acks", "acks_per_request", |row| Cell::Ratio(row.totals.acks as f64 / row.totals.requests.max(1) as f64)),
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
