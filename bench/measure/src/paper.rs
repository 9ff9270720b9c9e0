//! A paper's figures, and ours beside them. Machines differ by orders of magnitude, so only ratios compare.

use serde_json::{Value, json};

use crate::report::{Cell, Report, metric, nanoseconds, short};

/// A row of a paper, in microseconds ("µs") or megabytes a second ("MB/s").
pub struct PaperRow<F> {
    /// What it is.
    pub name: &'static str,
    /// Before the paper's optimisations, if it has that.
    pub initial: Option<f64>,
    /// After them.
    pub last: f64,
    /// Of both.
    pub unit: &'static str,
    /// Ours in this unit, if it was measured.
    pub ours: fn(&F) -> Option<f64>,
}

/// Rows of a paper, and ratios of two of them: a name, and the places of the rows.
pub struct Paper<F: 'static> {
    /// The rows.
    pub rows: &'static [PaperRow<F>],
    /// The ratios.
    pub ratios: &'static [(&'static str, usize, usize)],
}

impl<F> Paper<F> {
    /// A ratio of the paper, and ours: `None` where one of our rows was not measured.
    fn ratio(&self, of: &F, over: usize, under: usize) -> (f64, Option<f64>) {
        let (over, under) = (&self.rows[over], &self.rows[under]);
        let ours = (over.ours)(of).zip((under.ours)(of));
        (over.last / under.last, ours.map(|(over, under)| over / under))
    }

    /// The tables.
    pub fn tables(&self, of: &F, report: &mut Report) {
        let unit = |figure: f64, unit: &str| Cell::text(format!("{figure} {unit}"));
        let rows = self.rows.iter().map(|row| {
            let initial = row.initial.map_or(Cell::Nothing, |figure| unit(figure, row.unit));
            vec![Cell::text(row.name), initial, unit(row.last, row.unit), shown((row.ours)(of), row.unit)]
        });
        report.grid(&["row", ">initial", ">final", ">ours"], rows.collect());
        let ratios = self.ratios.iter().map(|(name, over, under)| {
            let (paper, ours) = self.ratio(of, *over, *under);
            vec![Cell::text(*name), Cell::Times(paper), Cell::of(ours, Cell::Times)]
        });
        report.grid(&["ratio", ">paper", ">ours"], ratios.collect());
    }

    /// The rows and ratios, for the summary.
    pub fn summary(&self, of: &F) -> Value {
        let row = |row: &PaperRow<F>| {
            let ours = (row.ours)(of).map(short);
            json!({ "what": row.name, "unit": row.unit, "initial": row.initial, "paper": row.last, "ours": ours })
        };
        let ratio = |(name, over, under): &(&'static str, usize, usize)| {
            let (paper, ours) = self.ratio(of, *over, *under);
            json!({ "what": name, "paper": short(paper), "ours": ours.map(short) })
        };
        self.rows.iter().map(row).chain(self.ratios.iter().map(ratio)).collect()
    }
}

/// A figure of ours, with a unit that suits it.
pub fn shown(figure: Option<f64>, unit: &str) -> Cell {
    match figure {
        None => Cell::Nothing,
        Some(time) if unit == "µs" => Cell::text(nanoseconds((time * 1e3) as u64)),
        Some(rate) => Cell::text(metric(rate * 1e6) + "B/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: [PaperRow<f64>; 3] = [
        PaperRow { name: "message", initial: None, last: 100.0, unit: "µs", ours: |of| Some(*of) },
        PaperRow { name: "call", initial: Some(600.0), last: 200.0, unit: "µs", ours: |of| Some(of * 3.0) },
        PaperRow { name: "object", initial: None, last: 5.0, unit: "MB/s", ours: |_| None },
    ];
    const PAPER: Paper<f64> = Paper { rows: &ROWS, ratios: &[("call over message", 1, 0), ("object over call", 2, 1)] };

    #[test]
    fn a_ratio_of_ours_needs_both_rows() {
        let summary = PAPER.summary(&2.0);
        assert_eq!(summary[3], json!({ "what": "call over message", "paper": 2.0, "ours": 3.0 }));
        assert_eq!(summary[4]["ours"], Value::Null);
        let mut report = Report::new("a", "title");
        PAPER.tables(&2.0, &mut report);
        assert!(report.text.contains("  call      600 µs  200 µs  6.00 µs\n"), "{}", report.text);
    }
}
