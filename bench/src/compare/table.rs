//! The tables: one line a peer, then the curves, then the notes.

use std::fmt::Write;

use super::offload::Offload;
use super::peer::{Stream, Turn};
use super::rows::{Comparison, Row, Spread};
use crate::report::table::{Column, align, bytes, metric, nanoseconds};
use crate::report::words::{rounds, times};

const COLUMNS: &[Column] = &[
    ("peer", false),
    ("wire", false),
    ("MTU", true),
    ("mode", false),
    ("p50", true),
    ("p99", true),
    ("messages", true),
    ("peak", true),
    ("n1/2", true),
    ("CPU", true),
    ("to am: p50", true),
    ("messages", true),
    ("bytes", true),
];

const NO_FIGURE: &str = "-";

impl Comparison {
    pub(crate) fn table(&self) -> String {
        let (small, cable) = (self.settings.small(), self.cable());
        let spread = match self.settings.amount.rounds {
            1 => "",
            _ => ", with\nhalf of their range",
        };
        let mut text = format!(
            "{cable}\n\np50, p99: one way of {small} B, half of a round trip; messages: of {small} B, one way, a second; peak: bytes \
             a second\nof the best size; n1/2: the size that moves half of it; CPU: of both sides, a message of \
             {small} B. Medians of {}{spread}; to am: the median of the rounds' \
             ratios,\nof messages only with equal batches, and of bytes a second of {}\n\n",
            rounds(self.settings.amount.rounds),
            short(self.settings.largest())
        );
        let cells: Vec<Vec<String>> = self.rows.iter().map(|row| self.cells(row)).collect();
        align(COLUMNS, &cells, &mut text);
        self.curve("one way by size, half of a round trip: p50", &mut text, |row, size| {
            row.spread(|turn| turn.one_way(size)?.middle()).map(|spread| time(&spread))
        });
        self.curve("bytes a second by size, one way", &mut text, |row, size| {
            let rate = row.spread(|turn| turn.stream(size).map(Stream::bytes))?;
            Some(format!("{}B/s", metric(rate.median)))
        });
        self.words(&mut text);
        text
    }

    /// The cable between two hosts.
    pub(super) fn cable(&self) -> String {
        let offload = self.offload.map_or("its offload is unknown".to_owned(), Offload::words);
        format!("veth pair of MTU {}: {offload}", self.settings.mtu)
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let small = self.settings.small();
        let [p50, messages, peak] = figures(small);
        let p99 = row.spread(|turn| turn.one_way(small)?.p99);
        let n_half = row.spread(Turn::n_half).map(|spread| bytes(spread.median.round() as usize));
        let cpu = row.spread(|turn| turn.stream(small)?.cpu);
        let a_second = |unit: &'static str| move |spread: &Spread| format!("{}{unit}", metric(spread.median));
        let [p50_ratio, messages_ratio, bytes_ratio] = self.ratios(row).map(|(_, ratio)| ratio.map(times));
        let cells = [
            row.spread(p50).map(with_spread(time)),
            p99.map(with_spread(time)),
            row.spread(messages).map(with_spread(a_second("/s"))),
            row.spread(peak).map(with_spread(a_second("B/s"))),
            n_half,
            cpu.map(|spread| time(&spread)),
            p50_ratio,
            messages_ratio,
            bytes_ratio,
        ];
        let mtu = row.mtu.map_or(NO_FIGURE.to_owned(), |mtu| mtu.to_string());
        let names = [row.name.to_owned(), row.wire.to_owned(), mtu, row.mode().to_owned()];
        names.into_iter().chain(cells.map(|cell| cell.unwrap_or_else(|| NO_FIGURE.to_owned()))).collect()
    }

    /// A line a peer, a column a size.
    fn curve(&self, head: &str, text: &mut String, cell: impl Fn(&Row, usize) -> Option<String>) {
        let sizes = self.settings.sizes.iter().map(|size| (short(*size), true));
        let columns: Vec<(String, bool)> = [("peer".to_owned(), false)].into_iter().chain(sizes).collect();
        let cells = |row: &Row| -> Vec<String> {
            let figures =
                self.settings.sizes.iter().map(|size| cell(row, *size).unwrap_or_else(|| NO_FIGURE.to_owned()));
            [row.name.to_owned()].into_iter().chain(figures).collect()
        };
        let measured = self.rows.iter().filter(|row| !row.turns.is_empty());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{head}\n");
        align(&columns, &measured.map(cells).collect::<Vec<_>>(), text);
    }

    /// Descriptions, reasons for missing figures, and notes.
    fn words(&self, text: &mut String) {
        text.push('\n');
        let mut said: Vec<(&str, &str)> = Vec::new();
        for row in &self.rows {
            let version = if row.version.is_empty() { String::new() } else { format!("; {}", row.version) };
            let _ = writeln!(text, "  {}: {}{version}", row.name, row.what);
            for reason in row.reasons() {
                // Several peers may lack the same thing, with the same long reason.
                let _ = match said.iter().find(|(_, its)| *its == reason) {
                    Some((first, _)) => writeln!(text, "    as {first}"),
                    None => writeln!(text, "    {}", reason.trim_end().replace('\n', "\n    ")),
                };
                said.push((row.name, reason));
            }
        }
        text.push('\n');
        let mut notes: Vec<&str> = Vec::new();
        for note in self.rows.iter().filter(|row| !row.turns.is_empty()).flat_map(|row| row.notes) {
            if !notes.contains(note) {
                notes.push(note);
            }
        }
        for note in notes {
            let _ = writeln!(text, "  {note}");
        }
        let _ = writeln!(
            text,
            "{}, peers taken in turn; {}",
            rounds(self.settings.amount.rounds),
            self.settings.cores.words()
        );
    }
}

/// The figures of the first table: one way, messages a second, the largest bandwidth.
pub(super) fn figures(small: usize) -> [impl Fn(&Turn) -> Option<f64> + Copy; 3] {
    [0, 1, 2].map(|which| {
        move |turn: &Turn| match which {
            0 => turn.one_way(small)?.middle(),
            1 => turn.stream(small).map(|stream| stream.messages),
            _ => turn.peak(),
        }
    })
}

fn time(spread: &Spread) -> String {
    nanoseconds(spread.median.round().max(0.0) as u64)
}

fn with_spread(cell: impl Fn(&Spread) -> String) -> impl Fn(Spread) -> String {
    move |spread| match spread.least == spread.most {
        true => cell(&spread),
        false => format!("{} ±{:.0} %", cell(&spread), spread.per_cent()),
    }
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
}
