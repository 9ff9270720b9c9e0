//! The plot: the median of each row, and a bar to its 99th percentile.

use am_measure::Error;
use am_measure::chart::{self, Bar};
use am_measure::report::nanoseconds;

use crate::measured::{Figure, Figures};
use crate::work::{Row, level_name};

impl Figures {
    /// All rows, as SVG.
    pub(crate) fn svg(&self) -> Result<String, Error> {
        let title = format!(
            "calls of a shared object over {}, {} members, {} cores: p50 (dot) to p99",
            self.conditions.transport, self.members, self.conditions.usable
        );
        let rows = Row::ALL.into_iter().filter_map(|row| {
            let time = |share| self.quantile(row, Figure::Own, share);
            Some(Bar { series: row.via(), name: name(row), from: time(0.5)?, to: time(0.99)? })
        });
        chart::ranges(&title, &rows.collect::<Vec<_>>(), &|ns| nanoseconds(ns as u64))
    }
}

/// In several short lines.
fn name(row: Row) -> String {
    let level = row.level().map_or(String::new(), |level| format!("\n{}", level_name(level)));
    let size = match row.size() {
        0 => String::new(),
        size if size % (1 << 20) == 0 => format!("\n{} MiB", size >> 20),
        size => format!("\n{} KiB", size >> 10),
    };
    let peer = if row.is_peer() { format!("{}\n", row.via()) } else { String::new() };
    format!("{peer}{}{level}{size}", row.name().replace(" in", "\nin"))
}
