//! The tables, and the ratios in sentences below them.

use std::fmt::Write;

use crate::batching::Batching;
use crate::driver::Driver;
use crate::loss::Loss;
use crate::plan::Bench;
use crate::stats::{Figures, Measured, Retained, Row};

use super::words::{DISTURBED, MAX_SPREAD, footer, rounds, sentence, telling, times, xdp};
use super::{Comparison, Report};

/// A column: its head, and whether it is aligned to the right.
pub type Column = (&'static str, bool);

const LATENCY: [&str; 9] = ["driver", "mode", "framing", ">size", ">p50", ">p99", ">p99.9", ">round trips", ">lost"];
const THROUGHPUT: [&str; 8] = ["driver", "mode", "framing", ">size", ">user bytes", ">messages", ">frames", ">lost"];

/// The column of losses stands beside the size.
const LOSS_AT: usize = 4;

impl Report<'_> {
    /// One table a bench, and the ratios.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let mut benches: Vec<Bench> = self.rows.iter().map(|row| row.first.bench).collect();
        benches.dedup();
        for bench in benches {
            self.bench(bench, &mut text);
        }
        let measured = format!("{}, drivers taken in turn", rounds(self.rounds));
        let at = self.rows.iter().find_map(|row| row.first.xdp).map(xdp);
        let mut ratios = self.comparisons.iter().flat_map(|comparison| &comparison.ratios);
        let is_disturbed = ratios.any(|ratio| ratio.range.1 > MAX_SPREAD * ratio.range.0);
        text + &footer(&measured, self.cores, at, self.is_simulated()) + if is_disturbed { DISTURBED } else { "" }
    }

    fn bench(&self, bench: Bench, text: &mut String) {
        let shared = self.rows.iter().any(|row| row.first.batching == Batching::Shared);
        let head = match bench {
            // `logp` has a report of its own.
            Bench::Latency | Bench::LogP => "latency: round trip of a request and its reply of the same size",
            Bench::Volley => "volley: round trip of a transfer and one back of the same size",
            Bench::Bandwidth if shared => "bandwidth: one way, am coalesced, counted by the receiver",
            Bench::Rate if shared => "rate: one way, am coalesced, counted by the receiver",
            Bench::Bandwidth => "bandwidth: one way, one message a frame, counted by the receiver",
            Bench::Rate => "rate: one way, one message a frame, counted by the receiver",
            Bench::Bulk => {
                "bulk: one way, transfers into the receiver's memory, compared with bare frames of as many bytes"
            }
        };
        let columns = match bench {
            Bench::Latency | Bench::Volley | Bench::LogP => columns(LATENCY).to_vec(),
            _ => columns(THROUGHPUT).to_vec(),
        };
        let (columns, rows) = self.cells(bench, columns);
        let _ = writeln!(text, "{head}\n");
        align(&columns, &rows, text);
        text.push('\n');
        for comparison in self.comparisons.iter().filter(|c| c.bench == bench) {
            self.compare(comparison, text);
        }
        for retained in self.retained.iter().filter(|_| bench != Bench::Latency) {
            let Retained { driver, size, loss, median, range } = retained;
            let (size, range) = (bytes(*size), (times(range.0), times(range.1)));
            let _ = writeln!(
                text,
                "  {driver} retains {} of its rate when {loss} of the frames are lost, at {size} (rounds: {} to {})",
                times(*median),
                range.0,
                range.1
            );
        }
        // Without ratios, one empty line is enough.
        if !text.ends_with("\n\n") {
            text.push('\n');
        }
    }

    fn cells(&self, bench: Bench, mut columns: Vec<Column>) -> (Vec<Column>, Vec<Vec<String>>) {
        let its: Vec<&Row<'_>> = self.rows.iter().filter(|row| row.first.bench == bench).collect();
        let mut rows: Vec<_> = its.iter().map(|row| cells(row)).collect();
        // Without losses, the column would be constant.
        if its.iter().any(|row| row.first.loss > Loss::NONE) {
            columns.insert(LOSS_AT, ("loss", true));
            rows.iter_mut().zip(&its).for_each(|(cells, row)| cells.insert(LOSS_AT, row.first.loss.to_string()));
        }
        (columns, rows)
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

    fn compare(&self, comparison: &Comparison, text: &mut String) {
        let several = self.comparisons.iter().filter(|c| c.bench == comparison.bench).count() > 1;
        let size = if several { format!("{}: ", bytes(comparison.size)) } else { String::new() };
        for ratio in telling(comparison.bench, &comparison.ratios) {
            let range = format!("rounds: {} to {}", times(ratio.range.0), times(ratio.range.1));
            let _ = writeln!(text, "  {size}{} ({range})", sentence(comparison.bench, ratio, self.raw()));
        }
        // The ratio of am and udp goes both ways, and needs one line.
        for (over, under, why) in comparison.mismatches.iter().filter(|(over, ..)| *over == Driver::Am) {
            let _ = writeln!(text, "  {size}no ratio of {over} to {under}: {}", why.words());
        }
    }
}

fn cells(row: &Row<'_>) -> Vec<String> {
    let Measured { driver, mode, framing, layout, .. } = row.first;
    let mut cells = vec![driver.to_string(), mode.clone(), (*framing).to_owned(), bytes(layout.size)];
    match &row.figures {
        Figures::RoundTrips(h) => {
            cells.extend([0.5, 0.99, 0.999].map(|quantile| nanoseconds(h.value_at_quantile(quantile))));
            cells.push(h.len().to_string());
        }
        Figures::Rates(rates) => {
            cells.push(format!("{}B/s", metric(rates.bytes)));
            cells.push(format!("{}/s", metric(rates.messages)));
            cells.push(format!("{}/s", metric(rates.frames)));
        }
    }
    cells.push(row.lost.to_string());
    cells
}

/// Columns with these heads. Those that begin with `>` are aligned to the right.
pub fn columns<const N: usize>(heads: [&'static str; N]) -> [Column; N] {
    heads.map(|head| head.strip_prefix('>').map_or((head, false), |head| (head, true)))
}

/// Print a table. Every column has the width of its widest cell.
pub fn align<S: AsRef<str>>(columns: &[(S, bool)], rows: &[Vec<String>], text: &mut String) {
    let width = |nth: usize| rows.iter().filter_map(|row| row.get(nth)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> =
        columns.iter().enumerate().map(|(nth, (head, _))| head.as_ref().len().max(width(nth).unwrap_or(0))).collect();
    let heads: Vec<String> = columns.iter().map(|(head, _)| head.as_ref().to_owned()).collect();
    for row in std::iter::once(&heads).chain(rows) {
        let mut line = String::new();
        for ((cell, (_, right)), width) in row.iter().zip(columns).zip(&widths) {
            let _ = if *right { write!(line, "  {cell:>width$}") } else { write!(line, "  {cell:<width$}") };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

pub fn bytes(count: usize) -> String {
    format!("{count} B")
}

/// A time with its significant digits.
pub fn nanoseconds(time: u64) -> String {
    let micros = time as f64 / 1e3;
    match time {
        0..10_000 => format!("{micros:.2} µs"),
        10_000..1_000_000 => format!("{micros:.1} µs"),
        _ => format!("{:.1} ms", micros / 1e3),
    }
}

/// Three digits and the unit's prefix.
pub fn metric(number: f64) -> String {
    let (scaled, prefix) = match number {
        n if n >= 1e9 => (n / 1e9, "G"),
        n if n >= 1e6 => (n / 1e6, "M"),
        n if n >= 1e3 => (n / 1e3, "k"),
        n => (n, ""),
    };
    match scaled {
        n if n >= 100.0 => format!("{n:.0} {prefix}"),
        n if n >= 10.0 => format!("{n:.1} {prefix}"),
        n => format!("{n:.2} {prefix}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::Cores;
    use crate::stats::measured;

    #[test]
    fn units() {
        assert_eq!([999, 5_934, 17_420, 2_500_000].map(nanoseconds), ["1.00 µs", "5.93 µs", "17.4 µs", "2.5 ms"]);
        assert_eq!([0.5, 12.34, 432_100.0, 1.2e9].map(metric), ["0.50 ", "12.3 ", "432 k", "1.20 G"]);
    }

    #[test]
    fn each_row_says_its_loss_where_frames_are_lost() {
        let with = |nth, loss| Measured { loss: Loss(loss), ..measured(Bench::Bulk, nth, Driver::Am, 0, 1_000_000) };
        let cores = Cores { near: None, far: None };
        let text = Report::new(&[with(0, 0), with(1, 10), with(2, 10_000)], cores).table();
        let expected = "  driver  mode       framing  size    loss  user bytes  messages    frames  lost
  am      veth copy  bare     64 B     0 %   64.0 MB/s  1.00 M/s  1.00 M/s     1
  am      veth copy  bare     64 B  0.01 %   64.0 MB/s  1.00 M/s  1.00 M/s     1
  am      veth copy  bare     64 B    10 %   64.0 MB/s  1.00 M/s  1.00 M/s     1
";
        assert!(text.contains(expected), "{text}");
        let text = Report::new(&[with(0, 0)], cores).table();
        assert!(!text.contains("loss"), "{text}");
    }

    #[test]
    fn what_stands_alone_has_one_empty_line_below_it() {
        let all = [measured(Bench::Latency, 0, Driver::Am, 0, 5_900)];
        let text = Report::new(&all, Cores { near: None, far: None }).table();
        assert!(!text.contains("\n\n\n") && text.contains("0\n\none round, "), "{text}");
    }

    #[test]
    fn rounds_that_differ_too_much_are_said_to() {
        let table = |worst| {
            let of = |round, driver, nanos| measured(Bench::Latency, 0, driver, round, nanos);
            let am = [of(0, Driver::Am, 6_000), of(1, Driver::Am, worst)];
            let all = [am, [of(0, Driver::Raw, 6_000), of(1, Driver::Raw, 6_000)]].concat();
            Report::new(&all, Cores { near: None, far: None }).table()
        };
        assert!(!table(50_000).contains(DISTURBED) && table(70_000).ends_with(DISTURBED), "{}", table(70_000));
    }

    #[test]
    fn a_table_says_everything_and_is_aligned() {
        let all = [
            measured(Bench::Latency, 0, Driver::Am, 0, 5_900),
            measured(Bench::Latency, 0, Driver::Raw, 0, 5_700),
            measured(Bench::Latency, 0, Driver::Udp, 0, 13_000),
        ];
        let text = Report::new(&all, Cores { near: Some(2), far: Some(3) }).table();
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
