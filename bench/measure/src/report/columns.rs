//! What a report says of each row, once for the table and for the lines of JSON.

use serde_json::{Map, Value, json};

use super::table::{align, bytes, metric, nanoseconds};
use super::words::times;

/// A value: text in the table, and a number in JSON.
#[derive(Clone, Debug)]
pub enum Cell {
    /// Empty in the table, and `null` in JSON.
    Nothing,
    /// Empty in the table, and no field in JSON.
    Absent,
    Text(String),
    Count(u64),
    Size(usize),
    /// Nanoseconds, as counted.
    Nanos(u64),
    /// Nanoseconds.
    Time(f64),
    /// Nanoseconds that may be negative.
    Micros(f64),
    /// An amount a second, and its unit.
    Rate(f64, &'static str),
    /// With two digits after the point.
    Ratio(f64),
    /// With its significant digits.
    Times(f64),
    Range(f64, f64),
    /// For JSON alone.
    Json(Value),
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    /// A ratio, if there is one.
    pub fn ratio(ratio: Option<f64>) -> Cell {
        ratio.map_or(Cell::Nothing, Cell::Ratio)
    }

    fn print(self) -> String {
        match self {
            Cell::Nothing | Cell::Absent => String::new(),
            Cell::Text(text) => text,
            Cell::Count(count) => count.to_string(),
            Cell::Size(size) => bytes(size),
            Cell::Nanos(ns) => nanoseconds(ns),
            Cell::Time(ns) => nanoseconds(ns as u64),
            Cell::Micros(ns) => format!("{:.2} µs", ns / 1e3),
            Cell::Rate(rate, unit) => format!("{}{unit}", metric(rate)),
            Cell::Ratio(ratio) => format!("{ratio:.2}"),
            Cell::Times(ratio) => times(ratio),
            Cell::Range(least, most) => format!("{least:.2} to {most:.2}"),
            Cell::Json(value) => value.to_string(),
        }
    }

    fn json(self) -> Option<Value> {
        Some(match self {
            Cell::Absent => return None,
            Cell::Nothing => Value::Null,
            Cell::Text(text) => json!(text),
            Cell::Count(count) | Cell::Nanos(count) => json!(count),
            Cell::Size(size) => json!(size),
            Cell::Time(ns) | Cell::Micros(ns) => json!(digits(ns, 10.0)),
            Cell::Rate(rate, _) => json!(rate.round() as u64),
            Cell::Ratio(ratio) | Cell::Times(ratio) => json!(digits(ratio, 1e4)),
            Cell::Range(least, most) => json!([least, most].map(|end| digits(end, 1e4))),
            Cell::Json(value) => value,
        })
    }
}

/// A column: its head in the table, with `>` before it if it is aligned to the right; its key in JSON, `a.b` within an object;
/// and its value of a row. Without a head it is in JSON alone, without a key in the table alone.
pub type Column<R> = (&'static str, &'static str, fn(&R) -> Cell);

/// Print the rows as a table.
pub fn table<R>(columns: &[Column<R>], rows: &[R], text: &mut String) {
    let shown = || columns.iter().filter(|(head, ..)| !head.is_empty());
    let heads: Vec<(&str, bool)> =
        shown().map(|(head, ..)| head.strip_prefix('>').map_or((*head, false), |head| (head, true))).collect();
    let cells = |row: &R| shown().map(|(.., of)| of(row).print()).collect();
    align(&heads, &rows.iter().map(cells).collect::<Vec<_>>(), text);
}

/// One object for each row.
pub fn lines<R>(bench: &str, columns: &[Column<R>], rows: &[R]) -> Vec<Value> {
    let line = |row: &R| {
        let mut line = json!({ "bench": bench });
        for (_, key, of) in columns.iter().filter(|(_, key, _)| !key.is_empty()) {
            let (outer, inner) = key.split_once('.').map_or((*key, None), |(outer, inner)| (outer, Some(inner)));
            match (of(row).json(), inner) {
                (Some(value), Some(inner)) => line[outer][inner] = value,
                (Some(value), None) => line[outer] = value,
                (None, _) => {}
            }
        }
        line
    };
    rows.iter().map(line).collect()
}

/// The lines, and a summary of the bench last, which says if the network was simulated.
pub fn summed(mut lines: Vec<Value>, bench: &str, summary: Value, is_simulated: bool) -> Vec<Value> {
    let mut all = Map::from_iter([("bench".to_owned(), json!(bench))]);
    all.extend(summary.as_object().cloned().unwrap_or_default());
    if is_simulated {
        all.insert("simulated".to_owned(), json!(true));
    }
    lines.push(json!({ "summary": all }));
    lines
}

/// Rounds to significant digits.
pub fn digits(number: f64, scale: f64) -> f64 {
    (number * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_and_json_have_the_same_values() {
        const COLUMNS: &[Column<f64>] = &[
            ("row", "", |_| Cell::text("one")),
            (">time", "ns.p50", |ns| Cell::Time(*ns)),
            ("", "rate", |ns| Cell::Rate(1e9 / ns, "/s")),
            (">to pair", "ratio", |_| Cell::ratio(None)),
            ("", "xdp", |_| Cell::Absent),
        ];
        let mut text = String::new();
        table(COLUMNS, &[1234.56], &mut text);
        assert_eq!(text, "  row     time  to pair\n  one  1.23 µs\n");
        let expected = json!({ "bench": "a", "ns": { "p50": 1234.6 }, "rate": 810_005, "ratio": null });
        assert_eq!(lines("a", COLUMNS, &[1234.56]), [expected]);
    }
}
