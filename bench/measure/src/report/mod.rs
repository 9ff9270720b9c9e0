//! The report of the measurements: a table for people, JSON for programs.

mod columns;
mod words;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use strum::VariantArray;
use words::{DISTURBED, MAX_SPREAD, VETH_GATHERS, sentence, telling};

use crate::chart::{self, COLOURS, Curve, Horizontal, Names, Panel, SeriesLabelPosition, Vertical};
use crate::cores::Cores;
use crate::driver::Driver;
use crate::error::Error;
use crate::loss::Loss;
use crate::plan::Batching;
use crate::plan::Bench;
use crate::spread::Spread;
use crate::stats::{Measured, MismatchedPair, Ratio, Retained, Row, compare, retained, rows};

pub use columns::{Cell, Column, Report, bytes, metric, nanoseconds, short, tenths};
pub(crate) use words::TRACED;
pub use words::{INTRODUCTION, LOOPBACK, SIMULATED, is_simulated, range, rounds, times, xdp};

/// The report of these measurements.
pub(crate) fn report(all: &[Measured], cores: Cores) -> Report {
    Compared::new(all, cores).report()
}

/// Everything that was measured, and the ratios.
#[derive(Debug)]
struct Compared<'a> {
    rows: Vec<Row<'a>>,
    comparisons: Vec<Comparison>,
    /// The rates with losses on purpose, relative to those without.
    retained: Vec<Retained>,
    cores: Cores,
    rounds: usize,
}

/// The ratios of one bench, size and loss.
#[derive(Debug)]
struct Comparison {
    bench: Bench,
    /// The largest: a full frame holds more with some drivers than with others, if they share no size.
    size: usize,
    loss: Loss,
    ratios: Vec<Ratio>,
    /// The pairs that have no ratio.
    mismatches: Vec<MismatchedPair>,
}

impl Compared<'_> {
    fn new(all: &[Measured], cores: Cores) -> Compared<'_> {
        let rows = rows(all);
        let comparisons = rows.chunk_by(|a, b| (a.first.bench, a.first.nth_size) == (b.first.bench, b.first.nth_size));
        let comparisons = comparisons.map(|its| {
            let Measured { bench, nth_size, loss, .. } = *its[0].first;
            let (ratios, mismatches) = compare(all, bench, nth_size);
            let size = its.iter().map(|row| row.first.layout.size).max().unwrap_or(0);
            Comparison { bench, size, loss, ratios, mismatches }
        });
        let comparisons = comparisons.collect();
        let rounds = rows.iter().map(|row| row.by_round.len()).max().unwrap_or(0);
        let retained = Bench::VARIANTS.iter().flat_map(|bench| retained(all, *bench)).collect();
        Compared { comparisons, rows, retained, cores, rounds }
    }

    /// The ratios of the first bench and size by name; then their context, and the same for every size.
    fn summary(&self) -> Value {
        let Some(first) = self.comparisons.first() else { return json!({}) };
        let mut summary = Value::Object(named(&first.ratios));
        if !self.retained.is_empty() {
            // The share of the rate that our messages retain at the first size, by loss in per cent.
            let its = self.retained.iter().filter(|retained| retained.size == first.size);
            let by_loss = its.map(|retained| (retained.loss.per_cent().to_string(), short(retained.share.median)));
            summary["kept"] = Value::Object(by_loss.collect());
        }
        summary["bench"] = json!(first.bench);
        summary["rounds"] = json!(self.rounds);
        summary["sizes"] = self.comparisons.iter().map(|c| self.comparison(c)).collect();
        summary
    }

    fn comparison(&self, Comparison { bench, size, loss, ratios, .. }: &Comparison) -> Value {
        let mut all = Map::from_iter([("bench".to_owned(), json!(bench)), ("size".to_owned(), json!(size))]);
        if !self.retained.is_empty() {
            all.insert("loss".to_owned(), json!(loss.per_cent()));
        }
        all.extend(named(ratios));
        let ends = |spread: &Spread| json!([short(spread.least), short(spread.most)]);
        let mut range: Map<String, Value> = ratios.iter().map(|r| (r.name(), ends(&r.ratio))).collect();
        if let Some(retained) = self.retained.iter().find(|retained| (&retained.size, &retained.loss) == (size, loss)) {
            all.insert("kept".to_owned(), short(retained.share.median));
            range.insert("kept".to_owned(), ends(&retained.share));
        }
        all.insert("range".to_owned(), Value::Object(range));
        Value::Object(all)
    }

    /// One table a bench, and the ratios. The first fields of the lines are stable; later ones may grow.
    fn report(&self) -> Report {
        let mut report = Report::default();
        for rows in self.rows.chunk_by(|a, b| a.first.bench == b.first.bench) {
            let bench = rows[0].first.bench;
            let is_shared = rows.iter().any(|row| row.first.batching == Batching::Shared);
            let title = match bench {
                // `logp` has a report of its own.
                Bench::Latency | Bench::LogP => "round trip of a request and its reply of the same size",
                Bench::Volley => "round trip of a transfer and one back of the same size",
                Bench::Bandwidth | Bench::Rate if is_shared => "one way, am coalesced, counted by the receiver",
                Bench::Bandwidth | Bench::Rate => "one way, one message a frame, counted by the receiver",
                Bench::Bulk => {
                    "one way, transfers into the receiver's memory, compared with bare frames of as many bytes"
                }
            };
            report.begin(bench.name(), format_args!("{bench}: {title}"));
            report.rows(&columns(bench), rows);
            self.sentences(bench, &mut report);
        }
        let at = self.rows.iter().find_map(|row| row.first.xdp).map(xdp);
        report.footer(format_args!("{}, drivers taken in turn", rounds(self.rounds)), self.cores, at);
        if self.rows.iter().any(|row| row.first.traced) {
            report.say(TRACED);
        }
        let mut ratios = self.comparisons.iter().flat_map(|comparison| &comparison.ratios).map(|ratio| ratio.ratio);
        if ratios.any(|rounds| rounds.most > MAX_SPREAD * rounds.least)
            || self.rows.iter().any(|row| !row.disturbed(MAX_SPREAD).is_empty())
        {
            report.say(DISTURBED);
        }
        report.summary(self.summary());
        report
    }

    /// The name of raw frames in a sentence.
    fn raw(&self) -> &'static str {
        match self.rows.iter().map(|row| row.first).find(|row| row.driver == Driver::Raw) {
            Some(raw) if raw.mode == "kernel" => "a bare socket",
            // Only AF_XDP's rows say where an XDP program ran.
            Some(raw) if raw.xdp.is_none() => "bare frames",
            _ => "raw AF_XDP",
        }
    }

    /// The ratios of a bench in words, and an empty line below them.
    fn sentences(&self, bench: Bench, report: &mut Report) {
        let before = report.text.len();
        let of_bench = || self.comparisons.iter().filter(|c| c.bench == bench);
        let several = of_bench().count() > 1;
        for comparison in of_bench() {
            let size = if several { format!("{}: ", bytes(comparison.size)) } else { String::new() };
            for ratio in telling(bench, &comparison.ratios) {
                let sentence = sentence(bench, ratio, self.raw());
                report.say(format_args!("  {size}{sentence} ({})", range(&ratio.ratio)));
            }
            // The ratio of am and udp goes both ways, and needs one line.
            for (over, under, why) in comparison.mismatches.iter().filter(|(over, ..)| *over == Driver::Am) {
                report.say(format_args!("  {size}no ratio of {over} to {under}: {why}"));
            }
        }
        let to_udp = |ratio: &Ratio| (ratio.over, ratio.under) == (Driver::Am, Driver::Udp);
        let is_veth = self.rows.iter().any(|row| row.first.driver == Driver::Am && row.first.mode.starts_with("veth"));
        if bench == Bench::Bandwidth && is_veth && of_bench().any(|each| each.ratios.iter().any(to_udp)) {
            report.say(VETH_GATHERS);
        }
        for Retained { driver, size, loss, share } in self.retained.iter().filter(|_| bench != Bench::Latency) {
            let (kept, size, range) = (times(share.median), bytes(*size), range(share));
            report.say(format_args!(
                "  {driver} retains {kept} of its rate when {loss} of the frames are lost, at {size} ({range})"
            ));
        }
        if report.text.len() > before {
            report.say("");
        }
    }
}

fn named(ratios: &[Ratio]) -> Map<String, Value> {
    ratios.iter().map(|ratio| (ratio.name(), short(ratio.ratio.median))).collect()
}

fn columns<'a>(bench: Bench) -> Vec<Column<Row<'a>>> {
    let mut columns: Vec<Column<Row<'a>>> = match bench {
        Bench::Latency | Bench::Volley | Bench::LogP => vec![
            ("driver", "via", |row| Cell::text(row.first.driver.name())),
            ("mode", "mode", |row| Cell::text(&row.first.mode)),
            ("framing", "framing", |row| Cell::text(row.first.framing)),
            (">size", "size", |row| Cell::Size(row.first.layout.size)),
            (">loss", "", |row| row.loss.map_or(Cell::Absent, |loss| Cell::text(loss.to_string()))),
            (">p50", "rtt_ns.p50", |row| quantile(row, 0.5)),
            (">p99", "rtt_ns.p99", |row| quantile(row, 0.99)),
            (">p99.9", "rtt_ns.p999", |row| quantile(row, 0.999)),
            (">round trips", "n", |row| Cell::Count(row.figures.round_trips.len())),
        ],
        _ => vec![
            ("driver", "via", |row| Cell::text(row.first.driver.name())),
            ("mode", "", |row| Cell::text(&row.first.mode)),
            ("framing", "", |row| Cell::text(row.first.framing)),
            (">size", "size", |row| Cell::Size(row.first.layout.size)),
            (">loss", "", |row| row.loss.map_or(Cell::Absent, |loss| Cell::text(loss.to_string()))),
            (">user bytes", "", |row| Cell::Rate(row.figures.rates.bytes, "B/s")),
            (">messages", "messages_per_s", |row| Cell::Rate(row.figures.rates.messages, "/s")),
            (">frames", "frames_per_s", |row| Cell::Rate(row.figures.rates.frames, "/s")),
            ("", "bytes_per_s", |row| Cell::Rate(row.figures.rates.bytes, "B/s")),
            ("", "mode", |row| Cell::text(&row.first.mode)),
            ("", "framing", |row| Cell::text(row.first.framing)),
        ],
    };
    columns.extend::<[Column<Row<'a>>; 8]>([
        // The figure that is compared (p50, bytes or messages a second).
        ("", "by_round", |row| Cell::Json(json!(row.by_round))),
        (">lost", "lost", |row| Cell::Count(row.lost)),
        ("disturbed", "disturbed", |row| match &row.disturbed(MAX_SPREAD)[..] {
            [] => Cell::Absent,
            its => {
                let numbers: Vec<String> = its.iter().map(usize::to_string).collect();
                Cell::Both(format!("round {}", numbers.join(", ")), json!(its))
            }
        }),
        ("traced", "traced", |row| Cell::traced(row.first.traced)),
        ("", "batching", |row| Cell::Json(json!(row.first.batching))),
        ("", "bundles", |row| Cell::Json(json!(row.first.batching == Batching::Shared))),
        ("", "loss", |row| row.loss.map_or(Cell::Absent, |loss| Cell::Json(json!(loss.per_cent())))),
        ("", "xdp", |row| Cell::xdp(row.first.xdp)),
    ]);
    columns
}

fn quantile(row: &Row<'_>, quantile: f64) -> Cell {
    Cell::Nanos(row.figures.round_trips.value_at_quantile(quantile))
}

/// Draw all measurements of a bench.
pub fn loss_curve(all: &[Measured], bench: Bench) -> Result<String, Error> {
    let mut retained = retained(all, bench);
    retained.sort_by_key(|retained| retained.loss);
    let mut losses: Vec<f64> = retained.iter().map(|retained| retained.loss.per_cent()).collect();
    losses.dedup();
    let sizes: BTreeSet<usize> = retained.iter().map(|retained| retained.size).collect();
    let curves = sizes.iter().zip(COLOURS).map(|(size, colour)| {
        let its = || retained.iter().filter(|retained| retained.size == *size);
        let mut line = Curve::line(name(all, *size), colour, its().map(|of| (of.loss.per_cent(), of.share.median)));
        line.bars = its().map(|of| (of.loss.per_cent(), of.share.least, of.share.most)).collect();
        line.dots.clone_from(&line.points);
        line
    });
    let mode = all.first().map_or("", |one| one.mode.as_str());
    let title = format!("{bench} when frames are lost, as a share of its rate without losses: {mode}");
    let per_cent = |loss: f64| format!("{} %", (loss * 1e4).round() / 1e4);
    let x = Horizontal("frames lost, in each direction", losses, &per_cent);
    let (y, names) =
        (Vertical::FromZero(1.0, &|share| format!("{share:.1}")), Names::Box(SeriesLabelPosition::LowerLeft));
    chart::svg("", &[vec![Panel::new(title, curves.collect(), names, x, y)]], 900, 450)
}

/// The label of a curve, with the rate that stands for 1.
fn name(all: &[Measured], size: usize) -> String {
    let whole = all.iter().filter(|one| one.layout.size == size && one.loss.0 == 0).map(Measured::figure);
    let whole = crate::spread::median(&whole.collect::<Vec<_>>()).unwrap_or(0.0);
    format!("messages of {}; 1.0 is {}B/s; bars: all rounds", bytes(size), metric(whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::measured;

    const CORES: Cores = Cores { near: Some(2), far: Some(3) };

    /// Over a veth alone, where it holds, and only beside the ratio.
    #[test]
    fn the_demonstration_says_why_udp_carries_more_bytes() {
        let text = |bench, mode: &str, other| {
            let of = |driver| Measured { mode: mode.to_owned(), ..measured(bench, 0, driver, 0, 1000) };
            super::report(&[of(Driver::Am), of(other)], CORES).text
        };
        let said = text(Bench::Bandwidth, "veth copy", Driver::Udp);
        let (_, behind) = said.split_once("times the bytes of kernel UDP").expect("a ratio");
        assert!(behind.lines().nth(1).is_some_and(|line| line.contains("datagrams over a veth as one")), "{said}");
        for (bench, mode, other) in [
            (Bench::Latency, "veth copy", Driver::Udp),
            (Bench::Bandwidth, "zero-copy", Driver::Udp),
            (Bench::Bandwidth, "veth copy", Driver::Raw),
        ] {
            assert!(!text(bench, mode, other).contains(VETH_GATHERS), "{bench} {mode}");
        }
    }

    /// Also of a driver that has no other beside it.
    #[test]
    fn a_disturbed_round_and_a_trace_are_marked_in_the_table_and_in_json() {
        let report = |nanos: [u64; 3], traced| {
            let of = |(round, nanos)| Measured { traced, ..measured(Bench::Latency, 0, Driver::Am, round, nanos) };
            let all: Vec<Measured> = nanos.into_iter().enumerate().map(of).collect();
            let mut report = super::report(&all, CORES);
            (report.text, report.lines.swap_remove(0))
        };
        let (text, line) = report([4_000, 157_000_000, 4_100], false);
        assert!(
            text.contains("disturbed\n") && text.contains("  round 2\n") && text.trim_end().ends_with(DISTURBED),
            "{text}"
        );
        assert_eq!((&line["disturbed"], line.get("traced")), (&json!([2]), None));
        let (text, line) = report([4_000, 4_200, 4_100], true);
        assert!(text.contains("traced\n") && text.contains("  yes\n") && text.trim_end().ends_with(TRACED), "{text}");
        assert_eq!((&line["traced"], line.get("disturbed")), (&json!(true), None));
    }

    #[test]
    fn a_table_says_everything_and_is_aligned() {
        let all = [
            measured(Bench::Latency, 0, Driver::Am, 0, 5_900),
            measured(Bench::Latency, 0, Driver::Raw, 0, 5_700),
            measured(Bench::Latency, 0, Driver::Udp, 0, 13_000),
        ];
        let text = report(&all, CORES).text;
        let expected = "\
latency: round trip of a request and its reply of the same size

  driver  mode       framing  size      p50      p99    p99.9  round trips  lost
  am      veth copy  bare     64 B  5.90 µs  5.90 µs  5.90 µs           10     0
  raw     veth copy  none     64 B  5.70 µs  5.70 µs  5.70 µs           10     0
  udp     veth copy  none     64 B  13.0 µs  13.0 µs  13.0 µs           10     0

  am takes 1.04 times as long as raw AF_XDP (rounds: 1.04 to 1.04)
  kernel UDP takes 2.20 times as long as am (rounds: 2.20 to 2.20)

one round, drivers taken in turn; both sides pinned: near on core 2, far on core 3
XDP ran in the kernel's generic receive path: the faster one on a veth of one queue, the slower one on a NIC
";
        assert_eq!(text, expected);
    }
}
