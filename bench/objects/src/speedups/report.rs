//! The table, the lines of JSON, the summary and the plot.

use am_measure::Error;
use am_measure::chart::{self, COLOURS, Curve, Horizontal, Names, Panel, SeriesLabelPosition, Vertical};
use am_measure::hosts::world::{FRAME, POLL};
use am_measure::report::{Cell, Column, Report, nanoseconds, short, tenths};
use serde_json::{Map, Value, json};

use super::{Mode, Row, Speedups};

/// The paper's text says how much faster eight hosts are; its curves are pictures.
const PAPER: [(&str, f64); 2] = [("water", 5.7), ("equations", 5.9)];
const PAPER_HOSTS: usize = 8;
/// Its molecules and equations.
const PAPER_SIZES: [usize; 2] = [100, 300];
/// What is wanted of ours, on as many.
const WANTED: f64 = 6.5;

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Simulated => "simulated",
            Mode::Measured => "shm, measured",
        }
    }
}

impl Row {
    fn paper(&self) -> Option<f64> {
        let is_its = self.mode == Mode::Simulated && self.hosts == PAPER_HOSTS && PAPER_SIZES.contains(&self.size);
        PAPER.into_iter().find(|(program, _)| is_its && *program == self.program).map(|(_, speed_up)| speed_up)
    }
}

impl Speedups {
    pub(super) fn report(&self) -> Report {
        let mut report =
            Report::new("speedups", "speed-ups of programs that share objects, beside one thread without objects");
        report.rows(COLUMNS, &self.rows);
        report.text += LEGEND;
        report.say(format_args!(
            "\nthe Orca paper's figures 6 and 7, on {PAPER_HOSTS} hosts: Water 5.7, equations 5.9\n\nwanted of ours, on as many\n"
        ));
        let mut summary = Map::new();
        for (program, _) in PAPER {
            let first = self.simulated(program).find(|row| row.hosts == PAPER_HOSTS);
            let Some(row) = first else { continue };
            let is_reached = if row.speed_up >= WANTED { "reached" } else { "not reached" };
            report.say(format_args!("  {program:<10}  {:.2}  at least {WANTED}  {is_reached}", row.speed_up));
            summary.insert(format!("{program}_{PAPER_HOSTS}"), short(row.speed_up));
        }
        report.say(format_args!(
            "\nsimulated, in virtual time: compute times are this machine's, medians of {} measurements; the network is simulated:",
            self.args.rounds
        ));
        report.say(self.mode());
        report.say("measured: threads of this machine, which share its cores, over shared memory");
        summary.insert("simulated".to_owned(), json!(true));
        summary.insert("mode".to_owned(), json!(self.mode()));
        summary.insert("all_equal".to_owned(), json!(self.rows.iter().all(|row| row.is_equal)));
        report.summary(Value::Object(summary));
        report
    }

    fn mode(&self) -> String {
        let operations = self.operations.iter().map(|(program, size, cost)| {
            let [own, other] = [cost.own, cost.other].map(nanoseconds);
            format!("{program} {size}: an own write {own}, another one {other}")
        });
        let operations: Vec<String> = operations.collect();
        let delay = nanoseconds(self.delay);
        format!("simulated, 10 Gb/s, links of {delay}, poll {POLL} ns, frame {FRAME} ns; {}", operations.join("; "))
    }

    /// The rows of the paper's size.
    fn simulated<'a>(&'a self, program: &'a str) -> impl Iterator<Item = &'a Row> {
        let mut rows =
            self.rows.iter().filter(move |row| row.program == program && row.mode == Mode::Simulated).peekable();
        let size = rows.peek().map(|row| row.size);
        rows.filter(move |row| Some(row.size) == size)
    }

    pub(super) fn svg(&self) -> Result<String, Error> {
        let panels = PAPER.into_iter().zip(["Water", "linear equations"]).map(|((program, paper), title)| {
            let of = |mode: Mode| {
                let size = self.simulated(program).next().map(|row| row.size);
                self.rows
                    .iter()
                    .filter(move |row| row.program == program && row.mode == mode && Some(row.size) == size)
                    .map(|row| (row.hosts as f64, row.speed_up))
            };
            let most = self.args.hosts.iter().max().copied().unwrap_or(PAPER_HOSTS) as f64;
            let mut curves = vec![
                Curve::line("one for each host", COLOURS[4], [(1.0, 1.0), (most, most)]),
                Curve::line("ours, simulated hosts", COLOURS[0], of(Mode::Simulated)),
                Curve::line("ours, this machine's cores", COLOURS[2], of(Mode::Measured)),
                Curve::line("the paper", COLOURS[1], [(1.0, 1.0), (PAPER_HOSTS as f64, paper)]),
            ];
            curves[1..].iter_mut().for_each(|curve| curve.dots.clone_from(&curve.points));
            let ticks: Vec<f64> = self.args.hosts.iter().map(|hosts| *hosts as f64).collect();
            let x = Horizontal("hosts", ticks, &|hosts| format!("{hosts}"));
            let y = Vertical::FromZero(most, &|speed_up| format!("{speed_up}"));
            Panel::new(title.to_owned(), curves, Names::Box(SeriesLabelPosition::UpperLeft), x, y)
        });
        let title =
            "speed-ups over one thread: simulated hosts with measured compute times, and threads of this machine";
        chart::svg(title, &[panels.collect()], 600, 450)
    }
}

const LEGEND: &str = concat!(
    "  size      molecules, or equations\n",
    "  compute   the longest median of a worker's step, measured alone on this machine\n",
    "  step      until the next one, with its communication\n",
    "  write     of one worker while all others wait, Agreed, until it is done\n",
    "  speed-up  the time of one thread without objects over the program's\n",
    "  equal     whether all workers have found what one thread finds, bit by bit\n",
);

const COLUMNS: &[Column<Row>] = &[
    ("program", "program", |row| Cell::text(row.program)),
    (">size", "size", |row| Cell::Count(row.size as u64)),
    ("where", "mode", |row| Cell::text(row.mode.name())),
    ("", "simulated", |row| Cell::Json(json!(row.mode == Mode::Simulated))),
    (">hosts", "hosts", |row| Cell::Count(row.hosts as u64)),
    (">compute", "compute_ns", |row| Cell::of(row.compute, Cell::Nanos)),
    (">step", "step_ns", |row| Cell::Both(nanoseconds(row.step as u64), tenths(row.step))),
    (">write", "write_ns", |row| Cell::of(row.write, Cell::Nanos)),
    (">speed-up", "speed_up", |row| Cell::Ratio(row.speed_up)),
    (">paper", "paper", |row| Cell::of(row.paper(), Cell::Ratio)),
    ("equal", "is_equal", |row| Cell::Both(if row.is_equal { "yes" } else { "no" }.to_owned(), json!(row.is_equal))),
];
