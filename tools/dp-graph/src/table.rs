//! The edges as text: a table, or lines of JSON.

use am_dp::{End, Graph};
use serde::Serialize;

use crate::live::{Rate, Row};

/// The table; `rate` chooses between the last interval and the whole run.
pub(crate) fn table(graph: &Graph, rows: &[Row], rate: impl Fn(&Row) -> Rate) -> Vec<String> {
    let end = |end: End| format!("{}:{}", shown(&graph.name(end.vertex)), end.dpid);
    let cells = rows.iter().map(|row| {
        let Rate { messages, megabytes, stalls } = rate(row);
        let redirected = row.redirected().unwrap_or_default();
        let figures = [
            format!("{messages:.0}"),
            format!("{megabytes:.2}"),
            format!("{stalls:.0}"),
            row.total.written.to_string(),
        ];
        let [messages, megabytes, stalls, total] = figures;
        [end(row.from), end(row.to), messages, megabytes, stalls, total, redirected]
    });
    let head = ["from", "to", "messages/s", "MB/s", "stalls/s", "messages", ""].map(str::to_owned);
    let lines: Vec<[String; 7]> = std::iter::once(head).chain(cells).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; 7] = std::array::from_fn(width);
    let line = |cells: &[String; 7]| {
        let [from, to, figures @ .., redirected] = cells;
        let mut text = format!("{from:0$}  {to:1$}", widths[0], widths[1]);
        for (figure, width) in figures.iter().zip(&widths[2..]) {
            text.push_str(&format!("  {figure:>width$}"));
        }
        format!("{text}  {redirected}").trim_end().to_owned()
    };
    lines.iter().map(line).collect()
}

/// A name on one line.
fn shown(name: &str) -> String {
    let escaped = |letter: char| if letter.is_control() { letter.escape_default().to_string() } else { letter.into() };
    name.chars().map(escaped).collect()
}

#[derive(Serialize)]
struct JsonEnd<'a> {
    vertex: &'a str,
    rank: u32,
    dpid: u32,
}

#[derive(Serialize)]
struct JsonEdge<'a> {
    /// Seconds since the job was started.
    time: f64,
    from: JsonEnd<'a>,
    to: JsonEnd<'a>,
    messages_per_second: f64,
    megabytes_per_second: f64,
    stalls_per_second: f64,
    messages: u64,
    bytes: u64,
    stalls: u64,
    redirected: bool,
    redirects: u64,
}

/// A line for each edge.
pub(crate) fn json(graph: &Graph, rows: &[Row], time: f64) -> String {
    let line = |row: &Row| {
        let (from, to) = (graph.name(row.from.vertex), graph.name(row.to.vertex));
        let end = |end: End, vertex| JsonEnd { vertex, rank: end.vertex, dpid: end.dpid.0 };
        let edge = JsonEdge {
            time: rounded(time),
            from: end(row.from, &from),
            to: end(row.to, &to),
            messages_per_second: rounded(row.rate.messages),
            megabytes_per_second: rounded(row.rate.megabytes),
            stalls_per_second: rounded(row.rate.stalls),
            messages: row.total.written,
            bytes: row.total.bytes_written,
            stalls: row.total.stalls,
            redirected: row.is_redirected,
            redirects: row.redirects,
        };
        // Numbers and texts are always JSON.
        serde_json::to_string(&edge).unwrap_or_default() + "\n"
    };
    rows.iter().map(line).collect()
}

fn rounded(figure: f64) -> f64 {
    (figure * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Live;

    fn two() -> (Graph, Vec<Row>) {
        let graph: Graph = "2=alpha,b 0.1>1.0 1.1>0.0".parse().unwrap();
        let mut live = Live::new(graph.clone());
        live.take(&"\u{1e}dp 0 2000000 1>1.3:3000,5000000,4,0,1".parse().unwrap());
        (graph, live.rows())
    }

    #[test]
    fn columns_are_aligned() {
        let (graph, rows) = two();
        let expected = [
            "from     to       messages/s  MB/s  stalls/s  messages",
            "alpha:1  b:3            1500  2.50         2      3000  redirected once",
            "b:1      alpha:0           0  0.00         0         0",
        ];
        assert_eq!(table(&graph, &rows, |row| row.mean), expected);
    }

    #[test]
    fn a_name_stays_on_its_line() {
        let graph: Graph = "2=a%0Ab,%1B 0.1>1.0".parse().unwrap();
        let rows = Live::new(graph.clone()).rows();
        assert!(table(&graph, &rows, |row| row.mean)[1].starts_with("a\\nb:1  \\u{1b}:0"));
    }

    #[test]
    fn json_has_a_line_for_each_edge() {
        let (graph, rows) = two();
        let lines = json(&graph, &rows, 1.23456);
        let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        let first = &lines[0];
        assert_eq!((&first["from"]["vertex"], &first["to"]["dpid"]), (&"alpha".into(), &3.into()));
        assert_eq!((&first["time"], &first["megabytes_per_second"]), (&1.235.into(), &2.5.into()));
        assert_eq!((&first["messages"], &first["redirected"]), (&3000.into(), &true.into()));
    }
}
