//! The table: one line a peer, then the curves, then the notes. In JSON: one object a peer, with every size and every
//! round; a summary last.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::offload::Offload;
use super::rows::{Comparison, Figures, Row, Turn};
use am_measure::Spread;
use am_measure::report::{Cell, Column, Report, bytes, rounds, short, tenths};

const NO_FIGURE: &str = "-";

/// A row, and the comparison that it is part of.
type Line<'a> = (&'a Comparison, &'a Row);

fn columns<'a>() -> [Column<Line<'a>>; 23] {
    [
        ("peer", "peer", |(_, row)| Cell::text(row.peer.name)),
        ("", "what", |(_, row)| Cell::text(row.peer.what)),
        ("wire", "wire", |(_, row)| Cell::text(row.peer.wire.name())),
        ("", "transport", |(_, row)| Cell::Json(json!(row.peer.wire.transport()))),
        (">MTU", "mtu", |(all, row)| {
            row.peer.wire.mtu(all.settings.mtu).map_or(Cell::Unknown(NO_FIGURE), |mtu| Cell::Count(mtu as u64))
        }),
        ("mode", "mode", |(_, row)| Cell::text(row.mode())),
        ("", "peer_version", |(_, row)| Cell::text(&row.version)),
        ("", "size", |(all, _)| Cell::Size(all.settings.small())),
        ("", "batching", |(all, row)| Cell::Json(json!(row.batching(all.settings.small())))),
        (">p50", "p50_ns", |line| ranged(line, |turn, small| turn.of(small, Figures::middle), Cell::Time)),
        (">p99", "p99_ns", |line| ranged(line, |turn, small| turn.of(small, |one| one.p99), Cell::Time)),
        (">messages", "messages_per_s", |line| {
            ranged(line, |turn, small| turn.of(small, |one| one.messages), |rate| Cell::Rate(rate, "/s"))
        }),
        (">peak", "peak_bytes_per_s", |line| ranged(line, |turn, _| turn.peak(), rate)),
        (">n1/2", "n_half_bytes", |line| figure(line, |turn, _| turn.n_half(), Cell::Bytes, false)),
        (">CPU", "cpu_ns", |line| figure(line, |turn, small| turn.of(small, |one| one.cpu), Cell::Time, false)),
        ("", "one_way", |(_, row)| by_size(row, ONE_WAY)),
        ("", "stream", |(_, row)| by_size(row, STREAM)),
        ("", "rounds", |(_, row)| Cell::Json(row.turns.iter().map(|(round, _)| *round).collect())),
        ("", "notes", |(_, row)| Cell::Json(json!(row.peer.notes))),
        ("", "failures", |(_, row)| Cell::Json(json!(row.reasons()))),
        (">to am: p50", "", |line| ratio(line, 0)),
        (">messages", "", |line| ratio(line, 1)),
        (">bytes", "", |line| ratio(line, 2)),
    ]
}

/// A figure of a turn, of messages of this size.
type Of = fn(&Turn, usize) -> Option<f64>;

/// A figure at the small size: its median and range over the rounds.
fn figure((all, row): &Line<'_>, of: Of, cell: fn(f64) -> Cell, with_spread: bool) -> Cell {
    let Some(spread) = row.spread(|turn| of(turn, all.settings.small())) else { return Cell::Unknown(NO_FIGURE) };
    let mut text = cell(spread.median).print();
    if with_spread && spread.least < spread.most {
        // Writing to a string cannot fail.
        let _ = write!(text, " ±{:.0} %", spread.per_cent());
    }
    let [median, least, most] = [spread.median, spread.least, spread.most].map(tenths);
    Cell::Both(text, json!({ "median": median, "range": [least, most] }))
}

/// The same; the table shows half of the range.
fn ranged(line: &Line<'_>, of: Of, cell: fn(f64) -> Cell) -> Cell {
    figure(line, of, cell, true)
}

pub(super) fn rate(bytes: f64) -> Cell {
    Cell::Rate(bytes, "B/s")
}

fn ratio((all, row): &Line<'_>, nth: usize) -> Cell {
    all.ratios(row)[nth].1.map_or(Cell::Unknown(NO_FIGURE), Cell::Times)
}

/// Half of a round trip, and the bytes a second, of one size.
pub(super) const CURVES: [Of; 2] =
    [|turn, size| turn.of(size, Figures::middle), |turn, size| turn.of(size, Figures::bytes)];

/// Figures by size: their names in JSON, and their values.
type BySize = [(&'static str, fn(&Figures) -> Option<f64>)];

const ONE_WAY: &BySize = &[("p50_ns", |one| one.p50), ("p99_ns", |one| one.p99), ("mean_ns", |one| one.mean)];

const STREAM: &BySize = &[
    ("messages_per_s", |one| one.messages),
    ("bytes_per_s", Figures::bytes),
    ("cpu_ns", |one| one.cpu),
    ("lost", |one| one.messages.map(|_| one.lost as f64)),
];

/// Each size that has such figures, each figure with its median and all rounds.
fn by_size(row: &Row, figures: &BySize) -> Cell {
    let of = |size: usize| {
        let mut all = json!({ "size": size });
        for (name, figure) in figures {
            let values = row.by_round(|turn| turn.of(size, figure)).into_iter().map(|(_, value)| value);
            let values: Vec<f64> = values.map(|value| (value * 10.0).round() / 10.0).collect();
            if let Some(Spread { median, .. }) = Spread::of(values.iter().copied()) {
                all[name] = json!({ "median": tenths(median), "by_round": values });
            }
        }
        all.as_object().is_some_and(|all| all.len() > 1).then_some(all)
    };
    Cell::Json(row.sizes().into_iter().filter_map(of).collect())
}

impl Comparison {
    pub(super) fn report(&self) -> Report {
        let (small, cable, spread) = (self.settings.small(), self.cable(), self.settings.amount.rounds > 1);
        let rounds = rounds(self.settings.amount.rounds);
        let mut report = Report::new("compare", cable);
        report.say(format_args!(
            "p50, p99: one way of {small} B, half of a round trip; messages: of {small} B, one way, a second; peak: bytes \
             a second\nof the best size; n1/2: the size that moves half of it; CPU: of both sides, a message of \
             {small} B. Medians of {rounds}{}; to am: the median of the rounds' \
             ratios,\nof messages only with equal batches, and of bytes a second of {}\n",
            if spread { ", with\nhalf of their range" } else { "" },
            in_few(self.settings.largest())
        ));
        report.rows(&columns(), &self.rows.iter().map(|row| (self, row)).collect::<Vec<Line<'_>>>());
        let sizes = self.settings.sizes.iter().map(|size| format!(">{}", in_few(*size)));
        let heads: Vec<String> = ["peer".to_owned()].into_iter().chain(sizes).collect();
        for (head, (curve, cell)) in [
            ("one way by size, half of a round trip: p50", (CURVES[0], Cell::Time as fn(f64) -> Cell)),
            ("bytes a second by size, one way", (CURVES[1], rate)),
        ] {
            let of = |row: &Row, size: usize| {
                row.spread(|turn| curve(turn, size)).map_or(Cell::Unknown(NO_FIGURE), |of| cell(of.median))
            };
            let cells = |row: &Row| {
                let figures = self.settings.sizes.iter().map(|size| of(row, *size));
                [Cell::text(row.peer.name)].into_iter().chain(figures).collect()
            };
            report.say(format_args!("{head}\n"));
            report.grid(&heads, self.measured().map(cells).collect());
        }
        self.words(&mut report);
        report.footer(format_args!("{rounds}, peers taken in turn"), self.settings.cores, None);
        let beside = |row: &Row| -> Option<(String, Value)> {
            let ratios = self.ratios(row).into_iter();
            let ratios: Map<_, _> = ratios.filter_map(|(name, ratio)| Some((name.to_owned(), short(ratio?)))).collect();
            (!ratios.is_empty()).then(|| (row.peer.name.to_owned(), Value::Object(ratios)))
        };
        report.summary(json!({
            "size": self.settings.small(), "rounds": self.settings.amount.rounds, "mtu": self.settings.mtu,
            "offload": self.offload, "over_am": self.rows.iter().filter_map(beside).collect::<Map<_, _>>(),
        }));
        report
    }

    /// The rows that have figures.
    pub(super) fn measured(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| !row.turns.is_empty())
    }

    /// The cable between two hosts.
    pub(super) fn cable(&self) -> String {
        let offload = self.offload.map_or("its offload is unknown".to_owned(), Offload::words);
        format!("veth pair of MTU {}: {offload}", self.settings.mtu)
    }

    /// Descriptions, reasons for missing figures, and notes.
    fn words(&self, report: &mut Report) {
        let mut said: Vec<(&str, &str)> = Vec::new();
        for row in &self.rows {
            let version = if row.version.is_empty() { String::new() } else { format!("; {}", row.version) };
            report.say(format_args!("  {}: {}{version}", row.peer.name, row.peer.what));
            for reason in row.reasons() {
                // Several peers may lack the same thing, with the same long reason.
                match said.iter().find(|(_, its)| *its == reason) {
                    Some((first, _)) => report.say(format_args!("    as {first}")),
                    None => report.say(format_args!("    {}", reason.trim_end().replace('\n', "\n    "))),
                }
                said.push((row.peer.name, reason));
            }
        }
        report.say("");
        let mut notes: Vec<&str> = Vec::new();
        for note in self.measured().flat_map(|row| row.peer.notes) {
            if !notes.contains(note) {
                notes.push(note);
                report.say(format_args!("  {note}"));
            }
        }
    }
}

/// A size in few characters.
pub(super) fn in_few(size: usize) -> String {
    match size {
        size if size >= 1 << 20 && size.is_multiple_of(1 << 20) => format!("{} MiB", size >> 20),
        size if size >= 1 << 10 && size.is_multiple_of(1 << 10) => format!("{} KiB", size >> 10),
        size => bytes(size),
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::{comparison, row};
    use super::*;

    #[test]
    fn a_line_a_peer_also_of_one_that_is_missing() {
        let mut missing = row("ucx", &[]);
        missing.absent = Some("ucx_perftest is not installed".to_owned());
        let mut as_well = row("fi", &[]);
        as_well.absent.clone_from(&missing.absent);
        let all = comparison(vec![row("am", &[1000.0, 1100.0, 900.0]), row("udp", &[2000.0]), missing, as_well]);
        let text = all.report().text;
        let line = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap().to_owned();
        let am = line("am ");
        assert!(am.contains("veth kernel") && am.contains("2.06 µs ±10 %") && am.contains("1.00"), "{am}");
        assert!(line("udp ").contains("1.97"), "{text}");
        let missing: Vec<String> = line("ucx ").split_whitespace().map(str::to_owned).collect();
        assert_eq!(missing[..5], ["ucx", "veth", "1500", "not", "installed"], "{text}");
        assert!(text.starts_with("veth pair of MTU 1500: TSO on, GSO on, GRO off\n"), "{text}");
        assert!(missing[5..].iter().all(|cell| cell == NO_FIGURE), "{text}");
        assert!(text.contains("  ucx: something; 1.0\n    ucx_perftest is not installed\n"), "{text}");
        assert!(text.contains("  fi: something; 1.0\n    as ucx\n"), "{text}");
        assert!(text.contains("half of their range"), "{text}");
        let mut once = comparison(vec![]);
        once.settings.amount.rounds = 1;
        assert!(!once.report().text.contains("their range"));
        assert_eq!(text.matches("  a note\n").count(), 1, "{text}");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(text.lines().filter(|line| words(line) == "peer 8 B 64 B 4 KiB").count(), 2, "{text}");
    }
}
