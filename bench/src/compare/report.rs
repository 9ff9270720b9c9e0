//! The table: one line a peer, then the curves, then the notes. In JSON: one object a peer, with every size and every
//! round; a summary last.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::offload::Offload;
use super::rows::{Comparison, Figures, Row, Turn};
use am_measure::report::table::{align, bytes, columns, metric, nanoseconds};
use am_measure::report::words::{rounds, times};
use am_measure::spread::Spread;

const NO_FIGURE: &str = "-";

/// A figure of a row: its name in JSON, its value in a turn at the small size, how the table prints it, and whether with
/// its spread.
type Figure = (&'static str, fn(&Turn, usize) -> Option<f64>, fn(f64) -> String, bool);

/// In the order of the columns.
const FIGURES: [Figure; 6] = [
    ("p50_ns", |turn, small| turn.of(small, Figures::middle), time, true),
    ("p99_ns", |turn, small| turn.of(small, |one| one.p99), time, true),
    ("messages_per_s", |turn, small| turn.of(small, |one| one.messages), |rate| format!("{}/s", metric(rate)), true),
    ("peak_bytes_per_s", |turn, _| turn.peak(), rate, true),
    ("n_half_bytes", |turn, _| turn.n_half(), |size| bytes(size.round() as usize), false),
    ("cpu_ns", |turn, small| turn.of(small, |one| one.cpu), time, false),
];

/// Half of a round trip, and the bytes a second, of one size.
pub(super) const CURVES: [fn(&Turn, usize) -> Option<f64>; 2] =
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

impl Comparison {
    pub(super) fn json(&self) -> Vec<Value> {
        self.rows.iter().map(|row| self.line(row)).chain([self.summary()]).collect()
    }

    fn line(&self, row: &Row) -> Value {
        let (small, peer) = (self.settings.small(), row.peer);
        let mut line = json!({
            "bench": "compare",
            "peer": peer.name,
            "what": peer.what,
            "wire": peer.wire.name(),
            "transport": peer.wire.transport(),
            "mtu": peer.wire.mtu(self.settings.mtu),
            "mode": row.mode(),
            "peer_version": row.version,
            "size": small,
            "batching": row.batching(small),
        });
        for (name, figure, ..) in FIGURES {
            line[name] =
                row.spread(|turn| figure(turn, small)).map_or(Value::Null, |Spread { median, least, most }| {
                    let [median, least, most] = [median, least, most].map(tenths);
                    json!({"median": median, "range": [least, most]})
                });
        }
        for (name, figures) in [("one_way", ONE_WAY), ("stream", STREAM)] {
            line[name] = row.sizes().into_iter().filter_map(|size| by_size(row, size, figures)).collect();
        }
        line["rounds"] = row.turns.iter().map(|(round, _)| *round).collect();
        line["notes"] = json!(peer.notes);
        line["failures"] = json!(row.reasons());
        line["cores"] = json!([self.settings.cores.near, self.settings.cores.far]);
        line
    }

    fn summary(&self) -> Value {
        let beside = |row: &Row| -> Option<(String, Value)> {
            let short = |ratio: f64| json!((ratio * 1e4).round() / 1e4);
            let ratios = self.ratios(row).into_iter();
            let ratios: Map<_, _> = ratios.filter_map(|(name, ratio)| Some((name.to_owned(), short(ratio?)))).collect();
            (!ratios.is_empty()).then(|| (row.peer.name.to_owned(), Value::Object(ratios)))
        };
        json!({"summary": {
            "bench": "compare",
            "size": self.settings.small(),
            "rounds": self.settings.amount.rounds,
            "mtu": self.settings.mtu,
            "offload": self.offload,
            "cores": [self.settings.cores.near, self.settings.cores.far],
            "over_am": self.rows.iter().filter_map(beside).collect::<Map<_, _>>(),
        }})
    }

    pub(super) fn table(&self) -> String {
        let (small, cable, spread) = (self.settings.small(), self.cable(), self.settings.amount.rounds > 1);
        let rounds = rounds(self.settings.amount.rounds);
        let mut text = format!(
            "{cable}\n\np50, p99: one way of {small} B, half of a round trip; messages: of {small} B, one way, a second; peak: bytes \
             a second\nof the best size; n1/2: the size that moves half of it; CPU: of both sides, a message of \
             {small} B. Medians of {rounds}{}; to am: the median of the rounds' \
             ratios,\nof messages only with equal batches, and of bytes a second of {}\n\n",
            if spread { ", with\nhalf of their range" } else { "" },
            short(self.settings.largest())
        );
        let figures = columns(["peer", "wire", ">MTU", "mode", ">p50", ">p99", ">messages", ">peak", ">n1/2", ">CPU"]);
        let ratios = columns([">to am: p50", ">messages", ">bytes"]);
        let cells: Vec<_> = self.rows.iter().map(|row| self.cells(row)).collect();
        align(&[&figures[..], &ratios].concat(), &cells, &mut text);
        let sizes = self.settings.sizes.iter().map(|size| (short(*size), true));
        let columns: Vec<(String, bool)> = [("peer".to_owned(), false)].into_iter().chain(sizes).collect();
        let heads = ["one way by size, half of a round trip: p50", "bytes a second by size, one way"];
        for ((head, curve), print) in heads.into_iter().zip(CURVES).zip([time, rate]) {
            let cell = |row: &Row, size: usize| {
                row.spread(|turn| curve(turn, size)).map_or(NO_FIGURE.to_owned(), |spread| print(spread.median))
            };
            let cells = |row: &Row| -> Vec<String> {
                let figures = self.settings.sizes.iter().map(|size| cell(row, *size));
                [row.peer.name.to_owned()].into_iter().chain(figures).collect()
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\n{head}\n");
            align(&columns, &self.measured().map(cells).collect::<Vec<_>>(), &mut text);
        }
        self.words(&mut text);
        let _ = writeln!(text, "{rounds}, peers taken in turn; {}", self.settings.cores.words());
        text
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

    fn cells(&self, row: &Row) -> Vec<String> {
        let (small, peer) = (self.settings.small(), row.peer);
        let mtu = peer.wire.mtu(self.settings.mtu).map_or(NO_FIGURE.to_owned(), |mtu| mtu.to_string());
        let mut cells = vec![peer.name.to_owned(), peer.wire.name().to_owned(), mtu, row.mode().to_owned()];
        for (_, figure, print, with_spread) in FIGURES {
            cells.push(match row.spread(|turn| figure(turn, small)) {
                None => NO_FIGURE.to_owned(),
                Some(spread) if with_spread && spread.least < spread.most => {
                    format!("{} ±{:.0} %", print(spread.median), spread.per_cent())
                }
                Some(spread) => print(spread.median),
            });
        }
        cells.extend(self.ratios(row).map(|(_, ratio)| ratio.map_or(NO_FIGURE.to_owned(), times)));
        cells
    }

    /// Descriptions, reasons for missing figures, and notes.
    fn words(&self, text: &mut String) {
        text.push('\n');
        let mut said: Vec<(&str, &str)> = Vec::new();
        for row in &self.rows {
            let version = if row.version.is_empty() { String::new() } else { format!("; {}", row.version) };
            let _ = writeln!(text, "  {}: {}{version}", row.peer.name, row.peer.what);
            for reason in row.reasons() {
                // Several peers may lack the same thing, with the same long reason.
                let _ = match said.iter().find(|(_, its)| *its == reason) {
                    Some((first, _)) => writeln!(text, "    as {first}"),
                    None => writeln!(text, "    {}", reason.trim_end().replace('\n', "\n    ")),
                };
                said.push((row.peer.name, reason));
            }
        }
        text.push('\n');
        let mut notes: Vec<&str> = Vec::new();
        for note in self.measured().flat_map(|row| row.peer.notes) {
            if !notes.contains(note) {
                notes.push(note);
                let _ = writeln!(text, "  {note}");
            }
        }
    }
}

/// The figures of one size, each with its median and all rounds; `None` if there are none.
fn by_size(row: &Row, size: usize, figures: &BySize) -> Option<Value> {
    let mut all = json!({"size": size});
    for (name, figure) in figures {
        let values = row.by_round(|turn| turn.of(size, figure));
        let values: Vec<f64> = values.into_iter().map(|(_, value)| tenths(value)).collect();
        if let Some(Spread { median, .. }) = Spread::of(values.iter().copied()) {
            all[name] = json!({"median": tenths(median), "by_round": values});
        }
    }
    all.as_object().is_some_and(|all| all.len() > 1).then_some(all)
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

pub(super) fn time(nanos: f64) -> String {
    nanoseconds(nanos.round().max(0.0) as u64)
}

pub(super) fn rate(bytes: f64) -> String {
    format!("{}B/s", metric(bytes))
}

/// A size in few characters.
pub(super) fn short(size: usize) -> String {
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
        let text = all.table();
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
        assert!(!once.table().contains("their range"));
        assert_eq!(text.matches("  a note\n").count(), 1, "{text}");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(text.lines().filter(|line| words(line) == "peer 8 B 64 B 4 KiB").count(), 2, "{text}");
    }

    #[test]
    fn sizes_in_few_characters() {
        assert_eq!([8, 1000, 4096, 1 << 20].map(short), ["8 B", "1000 B", "4 KiB", "1 MiB"]);
    }

    #[test]
    fn everything_by_size_and_round_and_ratios_in_the_end() {
        let all = comparison(vec![row("am", &[1000.0, 1100.0]), row("udp", &[2000.0, 2200.0])]);
        let lines = all.json();
        let udp = &lines[1];
        assert_eq!((&udp["peer"], &udp["size"], &udp["p50_ns"]["median"]), (&json!("udp"), &json!(64), &json!(4264.0)));
        assert_eq!(udp["one_way"][2]["p50_ns"]["by_round"], json!([8096.0, 8496.0]));
        assert_eq!(udp["one_way"][2].get("p99_ns"), None, "what is not known is not there");
        assert_eq!((&udp["p99_ns"], &udp["stream"][0]["lost"]["median"]), (&Value::Null, &json!(0.0)));
        assert_eq!(lines[2]["summary"]["offload"], json!({"tso": true, "gso": true, "gro": false}));
        let over = &lines[2]["summary"]["over_am"];
        assert!(over["udp"]["p50"].as_f64().unwrap() > 1.9 && over["am"]["bytes"] == json!(1.0), "{over}");
    }
}
