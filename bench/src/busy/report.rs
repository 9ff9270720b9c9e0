//! The tables of `busy`.

use am_measure::report::{Cell, Column, Report, rounds};
use am_measure::{Spread, quantile};
use serde_json::{Map, Value, json};

use super::{Busy, Part, Place, Turn, Way};

/// The most that a helper may cost, and the median within which it has to answer.
const MOST_COST: f64 = 0.01;
const MOST_NANOS: u64 = 50_000;

/// What answers, in the table.
pub(super) fn name(way: Way) -> String {
    match way {
        Way::Nothing => "nothing".to_owned(),
        Way::Polls(1) => "a poll after each body".to_owned(),
        Way::Polls(every) => format!("a poll after {every} bodies"),
        Way::Spin(_) => "a thread that spins".to_owned(),
        Way::Helper(_) => "a helper".to_owned(),
        Way::Urgent => "a helper, real-time".to_owned(),
        Way::Flag(_) => "a flag after each body".to_owned(),
        Way::Waits(_) => "a helper, the program waits".to_owned(),
    }
}

fn place(way: Way) -> Option<Place> {
    match way {
        Way::Nothing | Way::Polls(_) => None,
        Way::Urgent => Some(Place::Shared),
        Way::Spin(place) | Way::Helper(place) | Way::Flag(place) | Way::Waits(place) => Some(place),
    }
}

/// In the summary's keys.
fn key(way: Way) -> String {
    let name = match way {
        Way::Nothing => "nothing".to_owned(),
        Way::Polls(1) => "polls".to_owned(),
        Way::Polls(every) => format!("polls_{every}"),
        Way::Spin(_) => "spin".to_owned(),
        Way::Helper(_) => "helper".to_owned(),
        Way::Urgent => "urgent".to_owned(),
        Way::Flag(_) => "flag".to_owned(),
        Way::Waits(_) => "waits".to_owned(),
    };
    if place(way) == Some(Place::Shared) && way != Way::Urgent { name + "_shared" } else { name }
}

/// A way over one transport.
struct Row {
    transport: String,
    way: Way,
    rounds: usize,
    /// Nanoseconds of a body without anything, and how much longer a body takes with this: alone, and while calls arrive.
    body: Option<f64>,
    costs: [Option<Spread>; 2],
    calls: Vec<u64>,
}

impl Row {
    fn micros(&self, share: f64) -> Option<f64> {
        quantile(&self.calls, share).map(|nanos| (nanos as f64 / 100.0).round() / 10.0)
    }
}

fn cost(row: &Row, at: usize) -> Cell {
    row.costs[at].map_or(Cell::Nothing, |cost| {
        let text = format!("{:+.2} %", cost.median * 100.0);
        Cell::Both(text, json!((cost.median * 1e5).round() / 1e5))
    })
}

fn range(row: &Row, at: usize) -> Cell {
    row.costs[at].map_or(Cell::Nothing, |cost| {
        let [least, most] = [cost.least, cost.most].map(|cost| (cost * 1e5).round() / 1e5);
        Cell::Json(json!([least, most]))
    })
}

const COLUMNS: &[Column<Row>] = &[
    ("over", "transport", |row| Cell::text(&row.transport)),
    ("what answers", "way", |row| Cell::text(name(row.way))),
    ("on", "on", |row| {
        let word = |place| if place == Place::Shared { "the program's core" } else { "another core" };
        Cell::of(place(row.way).map(word), Cell::text)
    }),
    ("", "rounds", |row| Cell::Count(row.rounds as u64)),
    (">a body", "body_ns", |row| Cell::of(row.body, Cell::Tenths)),
    (">cost alone", "cost.alone", |row| cost(row, 0)),
    (">called", "cost.called", |row| cost(row, 1)),
    ("", "range.alone", |row| range(row, 0)),
    ("", "range.called", |row| range(row, 1)),
    (">calls", "n", |row| if row.calls.is_empty() { Cell::Nothing } else { Cell::Count(row.calls.len() as u64) }),
    (">p50", "call_ns.p50", |row| Cell::of(quantile(&row.calls, 0.5), Cell::Nanos)),
    (">p99", "call_ns.p99", |row| Cell::of(quantile(&row.calls, 0.99), Cell::Nanos)),
];

const LEGEND: &str = concat!(
    "  a body: one body of the program's loop, with what the row adds to it, while no call arrives.\n",
    "  cost: how much longer the program takes than with nothing: alone, while no call arrives; called, while calls do.\n",
    "  p50, p99: from the caller's call to its answer, in another process. It waits by yielding its core.\n",
);

impl Part {
    fn rows(&self) -> Vec<Row> {
        let of = |way: Way| self.turns.iter().filter(move |turn| turn.way == way);
        let bodies = |way: Way, at: usize| -> Vec<(usize, f64)> {
            of(way).filter_map(|turn| Some((turn.round, turn.bodies[at]?))).collect()
        };
        let base = bodies(Way::Nothing, 0);
        let row = |way: Way| Row {
            transport: self.transport.clone(),
            way,
            rounds: of(way).count(),
            body: Spread::of(bodies(way, 0).into_iter().map(|(_, body)| body)).map(|body| body.median),
            costs: [0, 1].map(|at| {
                let ratio = Spread::of_ratios(&bodies(way, at), &base).filter(|_| way != Way::Nothing)?;
                Some(Spread { median: ratio.median - 1.0, least: ratio.least - 1.0, most: ratio.most - 1.0 })
            }),
            calls: of(way).flat_map(|turn: &Turn| turn.calls.clone()).collect(),
        };
        super::WAYS.into_iter().map(row).filter(|row| row.rounds > 0).collect()
    }
}

/// The figures of a transport's rows by name.
fn figures(rows: &[Row]) -> Map<String, Value> {
    let mut figures = Map::new();
    for row in rows.iter().filter(|row| row.way != Way::Nothing) {
        let key = key(row.way);
        if let Some(cost) = row.costs[1] {
            figures.insert(format!("{key}_cost"), json!((cost.median * 1e5).round() / 1e5));
        }
        figures.insert(format!("{key}_p50_us"), json!(row.micros(0.5)));
    }
    figures
}

impl Busy {
    pub(super) fn report(&self) -> Report {
        let mut report = Report::new(
            "busy",
            "busy: what it costs a computing program to answer calls, and how soon they are answered",
        );
        let parts: Vec<Vec<Row>> = self.parts.iter().map(Part::rows).collect();
        for rows in &parts {
            report.rows(COLUMNS, rows);
        }
        report.say(LEGEND);
        for row in parts.iter().flatten().filter(|row| matches!(row.way, Way::Helper(_) | Way::Urgent)) {
            if let Some(verdict) = verdict(row) {
                report.say(verdict);
            }
        }
        let calls =
            format!("{} of each way, in turn; {} calls a second", rounds(self.plan.amount.rounds), self.plan.calls);
        report.footer(calls, self.plan.cores, None);
        let mut summary = Map::new();
        for (part, rows) in self.parts.iter().zip(&parts) {
            // The first transport's figures stand alone, too.
            if summary.is_empty() {
                summary = figures(rows);
                summary.insert("over".to_owned(), json!({}));
            }
            summary["over"][&part.transport] = Value::Object(figures(rows));
        }
        summary.insert("calls_per_s".to_owned(), json!(self.plan.calls));
        summary.insert("rounds".to_owned(), json!(self.plan.amount.rounds));
        report.summary(Value::Object(summary));
        report
    }
}

/// Whether a helper does what it has to.
fn verdict(row: &Row) -> Option<String> {
    let (cost, p50) = (row.costs[1]?.median, quantile(&row.calls, 0.5)?);
    let so = |is: bool| if is { "reached" } else { "MISSED" };
    let place = if place(row.way) == Some(Place::Shared) { "on the program's core" } else { "on another core" };
    Some(format!(
        "  wanted of {} {place} over {}: at most {:.0} %: {}; at most {} µs: {}",
        name(row.way),
        row.transport,
        MOST_COST * 100.0,
        so(cost <= MOST_COST),
        MOST_NANOS / 1000,
        so(p50 <= MOST_NANOS)
    ))
}
