//! The table, the lines of JSON and the summary of simulated groups.

use serde_json::{Map, Value, json};

use am_measure::hosts::world::{FRAME, POLL};
use am_measure::report::{Cell, Column, Report, SIMULATED, short, tenths};

use super::{Groups, Row};
use crate::work::{Load, Senders, Stack, Work};

impl Groups {
    /// Messages a second, with the default capacity or the largest.
    fn rate(&self, work: Work, is_wide: bool) -> Option<f64> {
        let mut rows = self.rows.iter().filter(|row| row.work == work);
        let row = if is_wide { rows.next_back() } else { rows.next() };
        row.map(|row| row.rate)
    }

    /// The rate of the largest group over that of the smallest, Agreed, by these senders.
    pub(super) fn rate_ratio(&self, senders: Senders, is_wide: bool) -> Option<f64> {
        let of = |members| self.rate(Work { senders, ..Work::stream(Stack::Agreed, members, 0) }, is_wide);
        Some(of(*self.members.last()?)? / of(*self.members.first()?)?)
    }

    pub(crate) fn report(&self) -> Report {
        let mut report = Report::new("ordered", "ordered: totally ordered multicast of null messages, simulated");
        report.rows(COLUMNS, &self.rows);
        report.text += LEGEND;
        let (least, most) = (self.members.first().copied().unwrap_or(2), self.members.last().copied().unwrap_or(2));
        let ratios = [
            ("", Senders::One, true, "the sender's window is full"),
            ("_by_default", Senders::One, false, "the default capacity, of which each member has its share"),
            ("_by_all", Senders::All, false, "the default capacity"),
        ];
        let mut summary = Map::new();
        report.say(format_args!("\nmessages a second in a group of {most} over those in a group of {least}, agreed"));
        for (name, senders, is_wide, capacity) in ratios {
            let Some(ratio) = self.rate_ratio(senders, is_wide) else { continue };
            report.say(format_args!("  by {:<5}{ratio:.2}  {capacity}", senders.name()));
            summary.insert(format!("rate_{most}_over_{least}{name}"), short(ratio));
        }
        report.say(format_args!("\n{}.", self.stamps.trim_end_matches('.')));
        report.say(SIMULATED);
        report.say(mode());
        summary.insert("stamps".to_owned(), json!(self.stamps));
        summary.insert("mode".to_owned(), json!(mode()));
        summary.insert("simulated".to_owned(), json!(true));
        report.summary(Value::Object(summary));
        report
    }
}

fn mode() -> String {
    format!("simulated, 10 Gb/s, poll {POLL} ns, frame {FRAME} ns")
}

const LEGEND: &str = concat!(
    "  senders     members that send; one is not the sequencer\n",
    "  capacity    messages in flight in the group: by default, and for one sender as many as fill its window\n",
    "  in turn     a message is sent when its sender has the one before it; stream: 64 of each sender on their way\n",
    "  own, last   from sending until the sender has its message, and until the last member has it\n",
    "  messages    a second, at the slowest member\n",
    "  busy        the part of the time in which the sequencer's processor works; in, out: its frames for each message\n",
    "  again       messages that a member got by asking for them; no number: to be stamped, and out of turn; no room: not sent at once\n",
);

const COLUMNS: &[Column<Row>] = &[
    ("via", "via", |row| Cell::text(row.work.stack.name())),
    (">members", "members", |row| Cell::Count(row.work.members as u64)),
    ("senders", "senders", |row| Cell::text(row.work.senders.name())),
    (">capacity", "capacity", |row| Cell::Count(row.capacity as u64)),
    ("", "size", |row| Cell::Size(row.work.size)),
    ("load", "load", |row| Cell::text(if row.work.load == Load::InTurn { "in turn" } else { "stream" })),
    ("", "simulated", |_| Cell::Json(Value::Bool(true))),
    ("", "mode", |_| Cell::Json(json!(mode()))),
    (">own p50", "own_ns.p50", |row| quantile(row, Row::own, 0.5)),
    (">p99", "own_ns.p99", |row| quantile(row, Row::own, 0.99)),
    (">last p50", "last_ns.p50", |row| quantile(row, Row::last, 0.5)),
    (">p99", "last_ns.p99", |row| quantile(row, Row::last, 0.99)),
    (">messages", "messages_per_s", |row| Cell::Rate(row.rate, "/s")),
    (">busy", "sequencer.busy", |row| Cell::Ratio(row.busy)),
    (">in", "sequencer.frames_received", |row| frames(row.frames[0])),
    (">out", "sequencer.frames_sent", |row| frames(row.frames[1])),
    (">again", "repaired", |row| Cell::Count(row.troubles[0])),
    (">no number", "not_stamped", |row| Cell::Count(row.troubles[1])),
    (">no room", "dropped", |row| Cell::Count(row.troubles[2])),
    ("", "n", |row| Cell::Count(row.own.len())),
];

impl Row {
    fn own(&self) -> &am_measure::RoundTrips {
        &self.own
    }

    fn last(&self) -> &am_measure::RoundTrips {
        &self.last
    }
}

fn quantile(row: &Row, of: fn(&Row) -> &am_measure::RoundTrips, quantile: f64) -> Cell {
    let times = of(row);
    if times.is_empty() { Cell::Nothing } else { Cell::Nanos(times.value_at_quantile(quantile)) }
}

/// Frames for each message.
fn frames(count: f64) -> Cell {
    Cell::Both(format!("{count:.2}"), if count < 100.0 { short(count) } else { tenths(count) })
}
