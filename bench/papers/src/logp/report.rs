//! The table, the lines of JSON, and the bars.

use std::fmt::Write;

use serde_json::{Value, json};

use am_measure::chart::{self, Group};
use am_measure::driver::Driver;
use am_measure::error::Error;
use am_measure::report::columns::{Cell, Column, bytes, lines, short, summed, table, tenths};
use am_measure::report::words::{footer, is_simulated, rounds, times};

use super::{Figures, PARAMETERS, Parameter, Row};

const LEGEND: &str = concat!(
    "  Os   the sender's processor time for a request, from bursts of eight; with its doorbell or system call\n",
    "  L    RTT/2 - Os - Or. Negative if the receiver begins before the sender's call has returned: on a veth the\n",
    "       sender's system call runs the kernel's receive path too\n",
    "  Or   the processor time for a reply, with all work that was put off until then\n",
    "  g    the time of a request in a long burst, one doorbell each: the slowest stage of both sides\n",
    "  RTT  the round trip of one request at a time. All are medians over the rounds; `rate` has larger batches\n\n",
);

/// The parameters of a ratio: differences of others may be zero.
const COMPARED: [Parameter; 3] = [PARAMETERS[0], PARAMETERS[3], PARAMETERS[4]];

fn columns<'a>() -> [Column<Row<'a>>; 17] {
    [
        ("driver", "via", |row| Cell::text(row.first.driver.name())),
        ("transport", "transport", |row| Cell::text(row.transport())),
        ("mode", "mode", |row| Cell::text(&row.first.mode)),
        ("", "framing", |row| Cell::text(row.first.framing)),
        (">size", "size", |row| Cell::Size(row.first.layout.size)),
        (">Os", "os_ns", |row| Cell::Micros(row.median(PARAMETERS[0]))),
        (">L", "l_ns", |row| Cell::Micros(row.median(PARAMETERS[1]))),
        (">Or", "or_ns", |row| Cell::Micros(row.median(PARAMETERS[2]))),
        (">g", "g_ns", |row| Cell::Micros(row.median(PARAMETERS[3]))),
        (">RTT", "rtt_ns", |row| Cell::Micros(row.median(PARAMETERS[4]))),
        (">g/(Os+Or)", "", |row| {
            let [os, _, or, g, _] = PARAMETERS.map(|parameter| row.median(parameter));
            Cell::Times(g / (os + or).max(1.0))
        }),
        ("", "range", |row| Cell::Json(row.ranges())),
        ("", "rounds", |row| Cell::Count(row.rounds.len() as u64)),
        (">lost", "lost", |row| Cell::Count(row.lost())),
        ("", "batching", |row| Cell::Json(json!(row.first.batching))),
        ("", "xdp", |row| Cell::xdp(row.first.xdp)),
        ("", "mtu", |row| Cell::Json(json!(row.part.mtu))),
    ]
}

impl Figures {
    pub(crate) fn json(&self) -> Vec<Value> {
        let rows = self.rows();
        let ratios: Vec<Value> = self.ratios(&rows).map(|(over, under)| over.ratios(under)).collect();
        let is_simulated = rows.iter().any(|row| is_simulated(&row.first.mode));
        let summary = json!({ "rounds": self.rounds, "ratios": ratios });
        summed(lines("logp", &columns(), &rows), "logp", Some(self.cores), is_simulated, summary)
    }

    pub(crate) fn table(&self) -> String {
        let rows = self.rows();
        let mut text = "logp: the parameters of the LogP model, after AM-II's Figure 5\n\n".to_owned();
        table(&columns(), &rows, &mut text);
        for (over, under) in self.ratios(&rows) {
            let [os, g, rtt] = COMPARED.map(|parameter| over.ratio(under, parameter).map_or("?".to_owned(), times));
            let (under, size) = (under.name(), bytes(over.first.layout.size));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {} to {under}, {size}: RTT {rtt}, g {g}, Os {os} times", over.name());
        }
        let is_simulated = rows.iter().any(|row| is_simulated(&row.first.mode));
        let measured = format!("{}, transports and drivers taken in turn", rounds(self.rounds));
        text + "\n" + LEGEND + &footer(&measured, self.cores, None, is_simulated)
    }

    /// Our messages, and each other driver on the same wire.
    fn ratios<'a>(&self, rows: &'a [Row<'a>]) -> impl Iterator<Item = (&'a Row<'a>, &'a Row<'a>)> {
        let ours = rows.iter().filter(|row| row.first.driver == Driver::Am);
        ours.flat_map(move |over| {
            let is_beside = move |under: &&Row<'_>| {
                std::ptr::eq(under.part, over.part)
                    && under.first.driver != Driver::Am
                    && under.first.nth_size == over.first.nth_size
            };
            rows.iter().filter(is_beside).map(move |under| (over, under))
        })
    }

    /// For each row the parts of one way on each other, and beside them the gap.
    pub(crate) fn svg(&self) -> Result<String, Error> {
        let group = |row: &Row<'_>| {
            let [os, l, or, g, _] = PARAMETERS.map(|parameter| row.median(parameter) / 1e3);
            (row.name(), vec![vec![("Os", os), ("Or", or), ("L", l)], vec![("g", g)]])
        };
        let groups: Vec<Group> = self.rows().iter().map(group).collect();
        let simulated = if self.rows().iter().any(|row| is_simulated(&row.first.mode)) { " (simulated)" } else { "" };
        chart::bars(&format!("LogP parameters{simulated}: one way and gap, µs"), &groups)
    }
}

impl Row<'_> {
    fn name(&self) -> String {
        match self.first.driver {
            Driver::Udp => "kernel udp".to_owned(),
            driver => format!("{driver} {}", self.transport()),
        }
    }

    /// The range of each parameter over the rounds.
    fn ranges(&self) -> Value {
        let range = |parameter| self.spread(parameter).map(|of| [of.least, of.most].map(tenths));
        PARAMETERS.map(|parameter| (format!("{}_ns", parameter.0), json!(range(parameter)))).into_iter().collect()
    }

    /// This row's parameters over another's.
    fn ratios(&self, under: &Row<'_>) -> Value {
        let mut line = json!({
            "over": self.first.driver.name(), "under": under.first.driver.name(), "transport": self.transport(),
            "size": self.first.layout.size,
        });
        for parameter in COMPARED {
            line[parameter.0] = json!(self.ratio(under, parameter).map(short));
        }
        line
    }
}
