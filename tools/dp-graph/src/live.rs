//! The live graph: the rates of each edge, computed from the processes' reports.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use am_dp::{End, Graph, PointReport, Report, Traffic};

/// A process that has sent no report for this many of its intervals has rates of zero.
const STALE: u32 = 3;
/// No rate is computed from two reports that are closer than this.
const MIN_INTERVAL: Duration = Duration::from_millis(5);

/// The traffic of an edge in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rate {
    pub(crate) messages: f64,
    /// In units of 10^6 bytes.
    pub(crate) megabytes: f64,
    /// Writes that failed because the edge was full.
    pub(crate) stalls: f64,
}

/// An edge with its rates.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) from: End,
    /// The present target of the edge.
    pub(crate) to: End,
    pub(crate) is_redirected: bool,
    pub(crate) redirects: u64,
    pub(crate) rate: Rate,
    /// The mean rate of the whole run.
    pub(crate) mean: Rate,
    pub(crate) total: Traffic,
}

impl Row {
    /// A text if the edge leads, or led, to another target than the graph's.
    pub(crate) fn redirected(&self) -> Option<String> {
        self.is_redirected.then(|| match self.redirects {
            0 => "not as in the graph".to_owned(),
            1 => "redirected once".to_owned(),
            times => format!("redirected {times} times"),
        })
    }
}

/// The state of an endpoint.
#[derive(Debug)]
struct Track {
    last: PointReport,
    /// The time of the last report, by the process's clock and by the local one.
    at: Duration,
    seen: Instant,
    interval: Duration,
    rate: Rate,
    /// The traffic of earlier endpoints with this number, which were closed.
    before: Traffic,
    redirects_before: u64,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Live {
    graph: Graph,
    tracks: BTreeMap<End, Track>,
}

impl Live {
    pub(crate) fn new(graph: Graph) -> Live {
        Live { graph, tracks: BTreeMap::new() }
    }

    /// Add the report of a process.
    pub(crate) fn take(&mut self, report: &Report) {
        // Ignore a process that is no vertex of this graph.
        if report.vertex as usize >= self.graph.count() {
            return;
        }
        for point in &report.points {
            let end = End::new(report.vertex, point.dpid);
            match self.tracks.get_mut(&end) {
                Some(track) => track.take(point, report.at),
                None => _ = self.tracks.insert(end, Track::new(point, report.at)),
            }
        }
    }

    /// Whether any process has sent a report.
    pub(crate) fn has_figures(&self) -> bool {
        !self.tracks.is_empty()
    }

    /// All edges: those of the graph in its order, then those that programs have created.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let own: BTreeSet<End> = self.graph.edges().iter().map(|edge| edge.from).collect();
        let of_graph = self.graph.edges().iter().filter_map(|edge| self.row(edge.from, Some(edge.to)));
        let others = self.tracks.keys().filter(|from| !own.contains(from)).filter_map(|from| self.row(*from, None));
        of_graph.chain(others).collect()
    }

    fn row(&self, from: End, planned: Option<End>) -> Option<Row> {
        let track = self.tracks.get(&from);
        let edge = track.and_then(|track| track.last.edge).map(|(nid, dpid)| End::new(nid.0, dpid));
        let to = edge.filter(|to| (to.vertex as usize) < self.graph.count()).or(planned)?;
        let Some(track) = track else {
            let (rate, mean, total) = Default::default();
            return Some(Row { from, to, is_redirected: false, redirects: 0, rate, mean, total });
        };
        let redirects = track.redirects_before.saturating_add(track.last.redirects);
        let is_redirected = redirects > 0 || planned.is_some_and(|planned| planned != to);
        let total = sum(track.before, track.last.traffic);
        let is_stale = track.seen.elapsed() > STALE * track.interval;
        let rate = if is_stale { Rate::default() } else { track.rate };
        Some(Row { from, to, is_redirected, redirects, rate, mean: per_second(total, track.at), total })
    }
}

impl Track {
    fn new(point: &PointReport, at: Duration) -> Track {
        let rate = per_second(point.traffic, at);
        Track {
            last: *point,
            at,
            seen: Instant::now(),
            interval: at,
            rate,
            before: Traffic::default(),
            redirects_before: 0,
        }
    }

    fn take(&mut self, point: &PointReport, at: Duration) {
        let (new, last) = (point.traffic, self.last.traffic);
        let is_anew = new.written < last.written || new.received < last.received || new.stalls < last.stalls;
        if is_anew {
            self.before = sum(self.before, last);
            self.redirects_before = self.redirects_before.saturating_add(self.last.redirects);
        }
        let interval = at.saturating_sub(self.at);
        if interval >= MIN_INTERVAL {
            let since = if is_anew { Traffic::default() } else { last };
            self.rate = per_second(difference(new, since), interval);
            (self.interval, self.at) = (interval, at);
        }
        // The last edge of an endpoint that was closed stays.
        let edge = point.edge.or(self.last.edge);
        (self.last, self.seen) = (PointReport { edge, ..*point }, Instant::now());
    }
}

fn per_second(traffic: Traffic, time: Duration) -> Rate {
    let seconds = time.as_secs_f64().max(1e-6);
    let rate = |count: u64| count as f64 / seconds;
    Rate { messages: rate(traffic.written), megabytes: rate(traffic.bytes_written) / 1e6, stalls: rate(traffic.stalls) }
}

/// Add two counts without overflow, because a program may report any number.
fn sum(one: Traffic, other: Traffic) -> Traffic {
    Traffic {
        written: one.written.saturating_add(other.written),
        bytes_written: one.bytes_written.saturating_add(other.bytes_written),
        stalls: one.stalls.saturating_add(other.stalls),
        received: one.received.saturating_add(other.received),
    }
}

fn difference(of: Traffic, from: Traffic) -> Traffic {
    Traffic {
        written: of.written.saturating_sub(from.written),
        bytes_written: of.bytes_written.saturating_sub(from.bytes_written),
        stalls: of.stalls.saturating_sub(from.stalls),
        received: of.received.saturating_sub(from.received),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(graph: &str, reports: &[&str]) -> Vec<Row> {
        let mut live = Live::new(graph.parse().unwrap());
        reports.iter().for_each(|report| live.take(&format!("\u{1e}dp {report}").parse().unwrap()));
        live.rows()
    }

    #[test]
    fn rates_are_of_the_last_interval_and_of_all() {
        let rows = live(
            "ring:2",
            &["0 1000000 0>-:0,0,0,0,0 1>1.0:10,0,0,0,0", "0 3000000 0>-:0,0,0,0,0 1>1.0:50,6000000,2,0,0"],
        );
        assert_eq!(rows.len(), 2, "a row for each edge, and none for an endpoint without one");
        assert_eq!(rows[0].rate, Rate { messages: 20.0, megabytes: 3.0, stalls: 1.0 });
        assert_eq!((rows[0].mean.megabytes, rows[0].total.written, rows[0].is_redirected), (2.0, 50, false));
        assert_eq!((rows[1].rate, rows[1].to), (Rate::default(), End::new(0, am_dp::Dpid(0))), "not reported yet");
    }

    #[test]
    fn an_edge_that_leads_elsewhere_is_redirected() {
        let rows = live("ring:3", &["0 1000000 1>2.7:1,1,0,0,0", "1 1000000 1>2.0:1,1,0,0,2"]);
        assert_eq!((rows[0].to, rows[0].is_redirected), (End::new(2, am_dp::Dpid(7)), true));
        assert!(rows[1].is_redirected, "there and back");
    }

    #[test]
    fn edges_that_the_program_made_are_shown() {
        let rows = live("ring:2", &["0 1000000 9>1.9:5,5,0,0,0 8>-:0,0,0,3,0", "7 1 1>1.0:1,1,1,1,1"]);
        assert_eq!((rows.len(), rows[2].total.written, rows[2].is_redirected), (3, 5, false));
    }

    #[test]
    fn an_endpoint_that_is_opened_anew_goes_on() {
        let rows =
            live("ring:2", &["0 1000000 1>1.0:10,10,0,0,1", "0 2000000 1>-:0,0,0,0,0", "0 3000000 1>1.0:4,4,0,0,0"]);
        assert_eq!((rows[0].total.written, rows[0].redirects, rows[0].rate.messages), (14, 1, 4.0));
    }

    #[test]
    fn a_forged_report_has_the_largest_numbers_at_most() {
        let most = u64::MAX;
        let rows = live(
            "ring:2",
            &[
                &format!("0 1000000 1>1.0:{most},{most},{most},{most},{most}"),
                &format!("0 1100000 1>1.0:1,1,1,1,{most}"),
                &format!("0 {most} 1>1.0:{most},{most},1,1,{most}"),
                &format!("0 1 1>1.0:5,1,1,1,{most}"),
            ],
        );
        assert_eq!((rows[0].total.written, rows[0].redirects), (most, most));
    }
}
