//! Live figures of a process: a line that it writes to standard error, from which `dp-graph` removes it.
//!
//! ```text
//!   <0x1e>dp RANK MICROSECONDS DPID>NID.DPID:WRITTEN,BYTES,STALLS,RECEIVED,REDIRECTS ...
//!   <0x1e>dp 3 1500220 0>-:0,0,0,812,0 1>4.0:790,50560,2,0,1
//! ```

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::{Dpid, Nid, Traffic};

/// The byte that a line begins with: ASCII's record separator.
pub const REPORT_MARK: u8 = 0x1e;

/// The name of the variable with the interval, in milliseconds.
pub const REPORT_VARIABLE: &str = "DP_GRAPH_REPORT";

/// The name of the variable with the graph.
pub const GRAPH_VARIABLE: &str = "DP_GRAPH";

const WORD: &str = "dp";

/// An endpoint's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointReport {
    /// The endpoint's number.
    pub dpid: Dpid,
    /// The other end of the endpoint's edge.
    pub edge: Option<(Nid, Dpid)>,
    /// The endpoint's counts of messages and bytes.
    pub traffic: Traffic,
    /// How often the endpoint's edge was redirected.
    pub redirects: u64,
}

/// A process's figures at one time. Its text is a line without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The process's vertex.
    pub vertex: u32,
    /// The time since the process opened its node.
    pub at: Duration,
    /// The process's endpoints.
    pub points: Vec<PointReport>,
}

impl fmt::Display for PointReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Traffic { written, bytes_written, stalls, received } = self.traffic;
        write!(f, "{}>", self.dpid)?;
        match self.edge {
            Some((nid, dpid)) => write!(f, "{nid}.{dpid}")?,
            None => f.write_str("-")?,
        }
        write!(f, ":{written},{bytes_written},{stalls},{received},{}", self.redirects)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = char::from(REPORT_MARK);
        write!(f, "{mark}{WORD} {} {}", self.vertex, self.at.as_micros())?;
        self.points.iter().try_for_each(|point| write!(f, " {point}"))
    }
}

/// A line that is no report.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no report of a process's endpoints")]
pub struct NoReport;

am_api::debug_as_display!(NoReport);

impl FromStr for Report {
    type Err = NoReport;

    fn from_str(line: &str) -> Result<Report, NoReport> {
        parse(line).ok_or(NoReport)
    }
}

fn parse(line: &str) -> Option<Report> {
    let mut words = line.strip_prefix(char::from(REPORT_MARK))?.split(' ');
    if words.next()? != WORD {
        return None;
    }
    let (vertex, micros) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let points = words.map(parse_point).collect::<Option<Vec<_>>>()?;
    Some(Report { vertex, at: Duration::from_micros(micros), points })
}

fn parse_point(word: &str) -> Option<PointReport> {
    let (dpid, rest) = word.split_once('>')?;
    let (edge, figures) = rest.split_once(':')?;
    let edge = match edge {
        "-" => None,
        edge => {
            let (nid, dpid) = edge.split_once('.')?;
            Some((Nid(nid.parse().ok()?), Dpid(dpid.parse().ok()?)))
        }
    };
    let figures: Option<Vec<u64>> = figures.split(',').map(|figure| figure.parse().ok()).collect();
    let [written, bytes_written, stalls, received, redirects] = figures?.try_into().ok()?;
    let traffic = Traffic { written, bytes_written, stalls, received };
    Some(PointReport { dpid: Dpid(dpid.parse().ok()?), edge, traffic, redirects })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let traffic = Traffic { written: 1, bytes_written: u64::MAX, stalls: 3, received: 4 };
        let one = PointReport { dpid: Dpid(7), edge: Some((Nid(8), Dpid(9))), traffic, redirects: 5 };
        let other = PointReport { edge: None, ..one };
        let report = Report { vertex: 6, at: Duration::from_micros(1_500_000), points: vec![one, other] };
        let text = report.to_string();
        assert_eq!(text.as_bytes()[0], REPORT_MARK);
        assert_eq!(text.parse(), Ok(report));
    }

    #[test]
    fn other_lines_are_none() {
        for text in
            ["", "\u{1e}", "\u{1e}dp", "\u{1e}dp 1", "\u{1e}dp 1 2 3", "\u{1e}dp 1 2 3>4.5:6", "dp 1 2", "\u{1e}x 1 2"]
        {
            assert_eq!(text.parse::<Report>(), Err(NoReport), "{text}");
        }
    }
}
