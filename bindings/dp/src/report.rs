//! Live figures on standard error, where `DP_GRAPH_REPORT` asks for them.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use am_dp::{PointReport, REPORT_VARIABLE, Report};

use crate::process::{Entry, Process};

/// A line is one write to a pipe, which keeps so many bytes together (PIPE_BUF).
const MAX_LINE: usize = 4096;
/// An endpoint's part of it at the most.
const MAX_POINT: usize = 160;

/// When the next line is due.
#[derive(Debug)]
pub(crate) struct Reporter {
    start: Instant,
    every: Duration,
    next: Instant,
}

impl Reporter {
    /// As the environment asks; `None` where it does not.
    pub(crate) fn find() -> Option<Reporter> {
        let every: u64 = std::env::var(REPORT_VARIABLE).ok()?.parse().ok().filter(|every| *every > 0)?;
        let (start, every) = (Instant::now(), Duration::from_millis(every));
        Some(Reporter { start, every, next: start + every })
    }
}

impl Process {
    /// How long until the next line; `Duration::MAX` where none is asked for.
    pub(crate) fn report_in(&self) -> Duration {
        self.reporter.as_ref().map_or(Duration::MAX, |reporter| reporter.next.saturating_duration_since(Instant::now()))
    }

    /// The lines, if they are due.
    pub(crate) fn due_report(&mut self) -> Vec<String> {
        let Some(reporter) = &mut self.reporter else { return vec![] };
        let now = Instant::now();
        if now < reporter.next {
            return vec![];
        }
        reporter.next = (reporter.next + reporter.every).max(now);
        self.report()
    }

    /// The lines, now.
    pub(crate) fn report(&self) -> Vec<String> {
        self.lines(self.points().filter_map(|(_, entry)| self.report_point(entry)).collect())
    }

    /// The last figures of an endpoint that goes.
    pub(crate) fn report_end(&self, entry: &Entry) {
        if self.reporter.is_some() {
            write(&self.lines(self.report_point(entry).into_iter().collect()));
        }
    }

    fn report_point(&self, entry: &Entry) -> Option<PointReport> {
        let Entry { point, redirects, .. } = entry;
        let (dpid, traffic) = (self.dp.dpid(point)?, self.dp.traffic(point)?);
        Some(PointReport { dpid, edge: self.dp.edge(point), traffic, redirects: *redirects })
    }

    fn lines(&self, points: Vec<PointReport>) -> Vec<String> {
        let Some(reporter) = &self.reporter else { return vec![] };
        let (vertex, at) = (self.dp.nodes().own().0, reporter.start.elapsed());
        let line = |points: &[PointReport]| format!("{}\n", Report { vertex, at, points: points.to_vec() });
        points.chunks(MAX_LINE / MAX_POINT - 1).map(line).collect()
    }
}

/// Write each line at once.
pub(crate) fn write(lines: &[String]) {
    for line in lines {
        // Nobody may be left to read it.
        _ = io::stderr().write_all(line.as_bytes());
    }
}
