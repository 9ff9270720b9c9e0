//! A group with more and more members, simulated: the rate of all members together, and each one's part of it. Every member has a
//! processor and a port of its own, so the figures show what members cost each other, and how evenly peers are spread.

use std::sync::Arc;
use std::time::Duration;

use am_api::{GroupMember, Placement};
use clap::Args;
use serde_json::Value;

use crate::many::{check_counts, count, simulated};
use am_measure::hosts::{Arena, HostPlan, Tally, WORD_BYTES, Wait, check};
use am_measure::options::{self, CoalesceOption, DEFAULT_MTU, Origin, Print, usage};
use am_measure::report::{Cell, Column, Report, SIMULATED};
use am_measure::{Amount, DriverOptions, Error, FramingArg, Progress, Watch, shares};

/// The options of `scale`.
#[derive(Clone, Debug, Args)]
pub struct ScaleArgs {
    /// Numbers of members
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2,4,8,16", value_parser = count())]
    pub members: Vec<usize>,
    /// Payload bytes of a frame, 1500 to 65522
    #[arg(long, default_value_t = DEFAULT_MTU, value_name = "BYTES", help_heading = "Where")]
    mtu: u32,
    /// Where our messages carry their header
    #[arg(long, value_enum, default_value = "split", value_name = "FRAMING", help_heading = "What")]
    framing: FramingArg,
    #[command(flatten)]
    coalesce: CoalesceOption,
    /// Length of one measurement, in virtual time
    #[arg(long, default_value = "0.01", value_parser = options::seconds, value_name = "SECONDS", help_heading = "How much")]
    time: Duration,
    /// Time before each measurement that is not counted [default: as long as --time]
    #[arg(long, value_parser = options::seconds, value_name = "SECONDS", help_heading = "How much")]
    warm_up: Option<Duration>,
    #[command(flatten)]
    print: Print,
}

impl ScaleArgs {
    /// All checks before the measurement.
    pub fn check(&self) -> Result<(), Error> {
        self.print.check()?;
        check_counts("--members", &self.members)?;
        if self.members.iter().any(|count| *count > MAX_MEMBERS) {
            return Err(usage(format!("at most {MAX_MEMBERS} members, a quarter of the clients")));
        }
        Ok(())
    }

    /// Groups with more and more members, in virtual time.
    pub fn run(&self, watch: &Watch) -> Result<(), Error> {
        self.check()?;
        let (framing, coalesce) = (self.framing, self.coalesce.coalesce.is_on());
        let how = DriverOptions { framing, coalesce, ..DriverOptions::default() };
        let amount = Amount { rounds: 1, warm_up: self.warm_up.unwrap_or(self.time), time: self.time };
        let progress = Progress::new(self.members.len(), self.print.json);
        let mut arena = simulated(how, self.mtu, None, watch)?;
        let scale = Scale::measure(&self.members, amount, &mut arena, &progress)?;
        drop(progress);
        self.print.publish(scale.report(), &Origin::new("sim", Some(self.mtu)))
    }
}

/// The clients, enough to keep every member busy.
const CLIENTS: usize = 64;
/// Its clients can keep this many members busy.
const MAX_MEMBERS: usize = CLIENTS / 4;
const GROUP: &str = "server";

#[derive(Clone, Debug)]
struct Point {
    members: usize,
    /// Answered requests a second.
    aggregate: f64,
    /// The rate of the slowest and of the fastest client, over an equal share.
    share: (f64, f64),
    /// The mean round trip.
    round_trip: f64,
}

#[derive(Debug)]
struct Scale {
    mode: String,
    points: Vec<Point>,
}

fn plans(members: usize) -> Result<Vec<HostPlan>, Error> {
    let group = GroupMember::group(GROUP, vec!["sim"; members], Placement::Load);
    let group = group.map_err(|error| Error::Usage(error.to_string()))?;
    let server = |member: GroupMember| HostPlan {
        name: member.name().to_owned(),
        endpoints: vec!["all".to_owned()],
        size: WORD_BYTES,
        port: member.number(),
        wait: Wait::Poll,
        member: Some(Arc::new(member)),
        ..HostPlan::default()
    };
    let client = |nth: usize| HostPlan {
        name: format!("client{nth}"),
        endpoints: vec!["main".to_owned()],
        targets: vec![(GROUP.to_owned(), "all".to_owned())],
        size: WORD_BYTES,
        outstanding: u32::MAX,
        port: members + nth,
        ..HostPlan::default()
    };
    Ok(group.into_iter().map(server).chain((0..CLIENTS).map(client)).collect())
}

impl Scale {
    /// Measure a group of each of these sizes.
    fn measure(sizes: &[usize], amount: Amount, arena: &mut dyn Arena, progress: &Progress) -> Result<Scale, Error> {
        let mut points = Vec::new();
        for &members in sizes {
            progress.say(&format!("{members} members"));
            let tallies = arena.run(&plans(members)?, amount)?;
            check(&tallies)?;
            progress.done();
            let clients = &tallies[members..];
            let rates: Vec<f64> = clients.iter().map(Tally::rate).collect();
            points.push(Point {
                members,
                aggregate: rates.iter().sum(),
                share: shares(&rates),
                round_trip: clients.iter().map(|tally| tally.round_trips.mean()).sum::<f64>() / CLIENTS as f64,
            });
        }
        Ok(Scale { mode: arena.mode(), points })
    }

    /// The rate over that of the smallest group, for each of its members.
    fn efficiency(&self, point: &Point) -> f64 {
        let first = &self.points[0];
        (point.aggregate / point.members as f64) / (first.aggregate / first.members as f64)
    }

    fn report(&self) -> Report {
        let title = format!("scale: a group of members, {CLIENTS} clients, requests of {WORD_BYTES} bytes");
        let mut report = Report::new("scale", title);
        let rows: Vec<_> = self.points.iter().map(|point| (point.clone(), self.efficiency(point))).collect();
        report.rows(COLUMNS, &rows);
        report.say("  share  the slowest and the fastest client, over an equal share\n");
        report.say(SIMULATED);
        report.say(&self.mode);
        report
    }
}

const COLUMNS: &[Column<(Point, f64)>] = &[
    (">members", "members", |(point, _)| Cell::Count(point.members as u64)),
    ("", "clients", |_| Cell::Count(CLIENTS as u64)),
    ("", "simulated", |_| Cell::Json(Value::Bool(true))),
    (">aggregate", "requests_per_s", |(point, _)| Cell::Rate(point.aggregate, "/s")),
    (">a member, to the first row", "efficiency", |(_, efficiency)| Cell::Ratio(*efficiency)),
    (">share", "share", |(point, _)| Cell::Range(point.share.0, point.share.1)),
    (">RTT", "round_trip_ns", |(point, _)| Cell::Time(point.round_trip)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use am_measure::hosts::Simulation;

    #[test]
    fn each_member_adds_its_rate() {
        let time = Duration::from_millis(2);
        let how = DriverOptions { framing: FramingArg::Split, ..DriverOptions::default() };
        let watch = Watch::default();
        let mut arena = Simulation { how, mtu: 1500, oversubscription: None, watch: &watch };
        let amount = Amount { rounds: 1, warm_up: time, time };
        let scale = Scale::measure(&[1, 4], amount, &mut arena, &Progress::new(2, true)).unwrap();
        let four = &scale.points[1];
        assert!(scale.efficiency(four) > 0.9, "{scale:?}");
        assert!(four.share.0 > 0.8 && four.share.1 < 1.2, "{scale:?}");
    }
}
