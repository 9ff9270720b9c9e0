//! What a report says of each row, once for the table and for the lines of JSON.

use std::fmt::{Display, Write};

use serde_json::{Map, Value, json};

use super::words::{SIMULATED, is_simulated, times};
use crate::cores::Cores;

/// A value: text in the table, and a number in JSON.
#[derive(Clone, Debug)]
pub enum Cell {
    /// Empty in the table, and `null` in JSON.
    Nothing,
    /// Empty in the table, and no field in JSON. A column where every row lacks it is left out.
    Absent,
    /// This text in the table, and `null` in JSON.
    Unknown(&'static str),
    /// The same in both.
    Text(String),
    /// A number of things.
    Count(u64),
    /// Bytes.
    Size(usize),
    /// Bytes, as computed.
    Bytes(f64),
    /// Nanoseconds, as counted.
    Nanos(u64),
    /// Nanoseconds.
    Time(f64),
    /// Nanoseconds that may be negative.
    Micros(f64),
    /// Fewer than a thousand nanoseconds.
    Tenths(f64),
    /// An amount a second, and its unit.
    Rate(f64, &'static str),
    /// With two digits after the point.
    Ratio(f64),
    /// With its significant digits.
    Times(f64),
    /// A share, in per cent in the table.
    Share(f64),
    /// The smallest and the largest share.
    Range(f64, f64),
    /// This text in the table, and this value in JSON.
    Both(String, Value),
    /// For JSON alone.
    Json(Value),
}

impl Cell {
    /// A text.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    /// A value, if there is one.
    pub fn of<T>(value: Option<T>, cell: fn(T) -> Cell) -> Cell {
        value.map_or(Cell::Nothing, cell)
    }

    /// Where the XDP program runs, if there is one.
    pub fn xdp(at: Option<&'static str>) -> Cell {
        at.map_or(Cell::Absent, Cell::text)
    }

    /// Whether frames were also written to a file.
    pub(crate) fn traced(is: bool) -> Cell {
        if is { Cell::Both("yes".to_owned(), json!(true)) } else { Cell::Absent }
    }

    /// The text in a table.
    pub fn print(self) -> String {
        match self {
            Cell::Nothing | Cell::Absent => String::new(),
            Cell::Unknown(text) => text.to_owned(),
            Cell::Text(text) | Cell::Both(text, _) => text,
            Cell::Count(count) => count.to_string(),
            Cell::Size(size) => bytes(size),
            Cell::Bytes(size) => bytes(size.max(0.0).round() as usize),
            Cell::Nanos(ns) => nanoseconds(ns),
            Cell::Time(ns) => nanoseconds(ns.max(0.0).round() as u64),
            Cell::Micros(ns) => format!("{:.2} µs", ns / 1e3),
            Cell::Tenths(ns) => format!("{ns:.1} ns"),
            Cell::Rate(rate, unit) => format!("{}{unit}", metric(rate)),
            Cell::Ratio(ratio) => format!("{ratio:.2}"),
            Cell::Times(ratio) => times(ratio),
            Cell::Share(share) => format!("{:.1} %", share * 100.0),
            Cell::Range(least, most) => format!("{least:.2} to {most:.2}"),
            Cell::Json(value) => value.to_string(),
        }
    }

    /// The field; `None` without one.
    pub(crate) fn json(self) -> Option<Value> {
        Some(match self {
            Cell::Absent => return None,
            Cell::Nothing | Cell::Unknown(_) => Value::Null,
            Cell::Text(text) => json!(text),
            Cell::Count(count) | Cell::Nanos(count) => json!(count),
            Cell::Size(size) => json!(size),
            Cell::Bytes(number) | Cell::Time(number) | Cell::Micros(number) | Cell::Tenths(number) => tenths(number),
            Cell::Rate(rate, _) => json!(rate.round() as u64),
            Cell::Ratio(ratio) | Cell::Times(ratio) | Cell::Share(ratio) => short(ratio),
            Cell::Range(least, most) => json!([least, most].map(short)),
            Cell::Json(value) | Cell::Both(_, value) => value,
        })
    }
}

/// A column: its head in the table, with `>` before it if it is aligned to the right; its key in JSON, `a.b` within an object;
/// and its value of a row. Without a head it is in JSON alone, without a key in the table alone.
pub type Column<R> = (&'static str, &'static str, fn(&R) -> Cell);

/// What a command reports: text for people, and lines of JSON for programs, from the same columns.
#[derive(Debug, Default)]
pub struct Report {
    bench: &'static str,
    /// Printed without `--json`.
    pub text: String,
    /// Printed with it.
    pub lines: Vec<Value>,
    cores: Option<Cores>,
}

impl Report {
    /// The report of this bench, which begins with a title.
    pub fn new(bench: &'static str, title: impl Display) -> Report {
        let mut report = Report::default();
        report.begin(bench, title);
        report
    }

    /// What follows is of this bench, and has a title.
    pub(crate) fn begin(&mut self, bench: &'static str, title: impl Display) {
        self.bench = bench;
        self.say(format_args!("{title}\n"));
    }

    /// A line of text.
    pub fn say(&mut self, words: impl Display) {
        self.text += &format!("{words}\n");
    }

    /// The rows as a table, and an object for each.
    pub fn rows<R>(&mut self, columns: &[Column<R>], rows: &[R]) {
        self.table(columns, rows);
        self.lines(columns, rows);
    }

    /// The rows as a table, and an empty line.
    pub fn table<R>(&mut self, columns: &[Column<R>], rows: &[R]) {
        let lacks = |of: &fn(&R) -> Cell| !rows.is_empty() && rows.iter().all(|row| matches!(of(row), Cell::Absent));
        let shown: Vec<_> = columns.iter().filter(|(head, _, of)| !head.is_empty() && !lacks(of)).collect();
        let heads: Vec<&str> = shown.iter().map(|(head, ..)| *head).collect();
        let cells = |row: &R| shown.iter().map(|(.., of)| of(row)).collect();
        self.grid(&heads, rows.iter().map(cells).collect());
    }

    /// An object for each row.
    pub fn lines<R>(&mut self, columns: &[Column<R>], rows: &[R]) {
        for row in rows {
            let mut line = json!({ "bench": self.bench });
            for (_, key, of) in columns.iter().filter(|(_, key, _)| !key.is_empty()) {
                let (outer, inner) = key.split_once('.').map_or((*key, None), |(outer, inner)| (outer, Some(inner)));
                match (of(row).json(), inner) {
                    (Some(value), Some(inner)) => line[outer][inner] = value,
                    (Some(value), None) => line[outer] = value,
                    (None, _) => {}
                }
            }
            self.lines.push(line);
        }
    }

    /// Cells below heads, and an empty line. A column has the width of its widest cell, and is aligned to the right if its
    /// head begins with `>`.
    pub fn grid<S: AsRef<str>>(&mut self, heads: &[S], rows: Vec<Vec<Cell>>) {
        let heads: Vec<(&str, bool)> = heads
            .iter()
            .map(|head| head.as_ref().strip_prefix('>').map_or((head.as_ref(), false), |head| (head, true)))
            .collect();
        let mut lines = vec![heads.iter().map(|(head, _)| (*head).to_owned()).collect::<Vec<_>>()];
        lines.extend(rows.into_iter().map(|row| row.into_iter().map(Cell::print).collect::<Vec<_>>()));
        let width = |nth: usize| lines.iter().filter_map(|line| line.get(nth)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..heads.len()).map(|nth| width(nth).unwrap_or(0)).collect();
        for line in &lines {
            let mut printed = String::new();
            for ((cell, (_, right)), width) in line.iter().zip(&heads).zip(&widths) {
                // Writing to a string cannot fail.
                let _ = if *right { write!(printed, "  {cell:>width$}") } else { write!(printed, "  {cell:<width$}") };
            }
            self.say(printed.trim_end());
        }
        self.say("");
    }

    /// Below the tables: what was measured how often, on which cores, where the XDP program ran. The lines so far get the
    /// cores, too.
    pub fn footer(&mut self, measured: impl Display, cores: Cores, xdp: Option<&str>) {
        self.say(format_args!("{measured}; {}", cores.words()));
        xdp.into_iter().for_each(|xdp| self.say(xdp));
        self.say_if_simulated();
        self.stamp("cores", &json!([cores.near, cores.far]));
        self.cores = Some(cores);
    }

    /// Give each line so far this field.
    pub fn stamp(&mut self, key: &str, value: &Value) {
        self.lines.iter_mut().for_each(|line| line[key] = value.clone());
    }

    /// That the figures are no measurement, if the network was simulated.
    pub fn say_if_simulated(&mut self) {
        if self.is_simulated() {
            self.say(SIMULATED);
        }
    }

    /// Whether the network was simulated, as the modes of the lines say.
    pub fn is_simulated(&self) -> bool {
        self.lines.iter().any(|line| line["mode"].as_str().is_some_and(is_simulated))
    }

    /// The last line: a summary of the bench.
    pub fn summary(&mut self, summary: Value) {
        let mut all = Map::new();
        if summary.get("bench").is_none() {
            all.insert("bench".to_owned(), json!(self.bench));
        }
        all.extend(summary.as_object().cloned().unwrap_or_default());
        if let Some(cores) = self.cores {
            all.insert("cores".to_owned(), json!([cores.near, cores.far]));
        }
        if self.is_simulated() {
            all.insert("simulated".to_owned(), json!(true));
        }
        self.lines.push(json!({ "summary": all }));
    }
}

/// Four digits after the point are more than any measurement here knows. Small numbers have four of their own.
pub fn short(number: f64) -> Value {
    let zeros = if number != 0.0 && number.abs() < 0.01 { -number.abs().log10().ceil() } else { 0.0 };
    let scale = 10_f64.powf(4.0 + zeros);
    json!((number * scale).round() / scale)
}

/// With one digit after the point.
pub fn tenths(number: f64) -> Value {
    json!((number * 10.0).round() / 10.0)
}

/// Bytes with their unit.
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

    #[test]
    fn small_numbers_keep_four_digits() {
        let all = [1_234.567_89, 0.123_456, 0.012_345_6, 0.000_643_291, 0.0, -0.000_643_291].map(short);
        assert_eq!(all, [1234.5679, 0.1235, 0.0123, 0.000_643_3, 0.0, -0.000_643_3].map(|number| json!(number)));
    }

    #[test]
    fn table_and_json_have_the_same_values() {
        const COLUMNS: &[Column<f64>] = &[
            ("row", "", |_| Cell::text("one")),
            (">time", "ns.p50", |ns| Cell::Time(*ns)),
            ("", "rate", |ns| Cell::Rate(1e9 / ns, "/s")),
            (">to pair", "ratio", |_| Cell::of(None, Cell::Ratio)),
            (">loss", "loss", |_| Cell::Absent),
        ];
        let mut report = Report::new("a", "title");
        report.rows(COLUMNS, &[1234.4]);
        assert_eq!(report.text, "title\n\n  row     time  to pair\n  one  1.23 µs\n\n");
        let expected = json!({ "bench": "a", "ns": { "p50": 1234.4 }, "rate": 810_110, "ratio": null });
        assert_eq!(report.lines, [expected]);
    }

    #[test]
    fn units() {
        assert_eq!([999, 5_934, 17_420, 2_500_000].map(nanoseconds), ["1.00 µs", "5.93 µs", "17.4 µs", "2.5 ms"]);
        assert_eq!([0.5, 12.34, 432_100.0, 1.2e9].map(metric), ["0.50 ", "12.3 ", "432 k", "1.20 G"]);
    }
}
