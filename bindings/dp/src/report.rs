//! Live figures on standard error, where `DP_GRAPH_REPORT` asks for them.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use am_dp::{Nid, PointReport, REPORT_VARIABLE, Report};

/// A line is one write to a pipe, which keeps 4096 bytes together (PIPE_BUF). An endpoint's part has 150 at the most.
const MAX_POINTS: usize = 24;

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

    /// How long until then.
    pub(crate) fn due_in(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Whether it is due; then the next one is an interval later.
    pub(crate) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = now >= self.next;
        if is_due {
            self.next = (self.next + self.every).max(now);
        }
        is_due
    }

    /// The lines of these endpoints.
    pub(crate) fn lines(&self, vertex: Nid, points: &[PointReport]) -> Vec<String> {
        let at = self.start.elapsed();
        let line = |points: &[PointReport]| format!("{}\n", Report { vertex: vertex.0, at, points: points.to_vec() });
        points.chunks(MAX_POINTS).map(line).collect()
    }
}

/// Write each line at once.
pub(crate) fn write(lines: &[String]) {
    for line in lines {
        // Nobody may be left to read it.
        _ = io::stderr().write_all(line.as_bytes());
    }
}
