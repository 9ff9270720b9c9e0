//! The table, the lines of JSON, and the bars.

use std::fmt::Write;

use serde_json::{Value, json};

use am_measure::chart::bars::{self, Bar, Group};
use am_measure::driver::Driver;
use am_measure::error::Error;
use am_measure::report::table::{align, bytes, columns};
use am_measure::report::words::{footer, is_simulated, rounds, times};
use am_measure::sweep::digits;

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

impl Figures {
    pub(crate) fn json(&self) -> Vec<Value> {
        let (rows, cores) = (self.rows(), json!([self.cores.near, self.cores.far]));
        let mut lines: Vec<Value> = rows.iter().map(|row| row.line(&cores)).collect();
        let ratios: Vec<Value> = self.ratios(&rows).map(|(over, under)| over.ratios(under)).collect();
        let mut summary = json!({ "bench": "logp", "rounds": self.rounds, "cores": cores, "ratios": ratios });
        if rows.iter().any(|row| is_simulated(&row.first.mode)) {
            summary["simulated"] = json!(true);
        }
        lines.push(json!({ "summary": summary }));
        lines
    }

    pub(crate) fn table(&self) -> String {
        let rows = self.rows();
        let mut text = "logp: the parameters of the LogP model, after AM-II's Figure 5\n\n".to_owned();
        let heads =
            columns(["driver", "transport", "mode", ">size", ">Os", ">L", ">Or", ">g", ">RTT", ">g/(Os+Or)", ">lost"]);
        align(&heads, &rows.iter().map(Row::cells).collect::<Vec<_>>(), &mut text);
        text.push('\n');
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
            let bars = vec![Bar { parts: vec![("Os", os), ("Or", or), ("L", l)] }, Bar { parts: vec![("g", g)] }];
            Group { name: row.name(), bars }
        };
        let groups: Vec<Group> = self.rows().iter().map(group).collect();
        let simulated = if self.rows().iter().any(|row| is_simulated(&row.first.mode)) { " (simulated)" } else { "" };
        bars::svg(&format!("LogP parameters{simulated}: one way and gap, µs"), &groups)
    }
}

impl Row<'_> {
    fn name(&self) -> String {
        match self.first.driver {
            Driver::Udp => "kernel udp".to_owned(),
            driver => format!("{driver} {}", self.transport()),
        }
    }

    fn cells(&self) -> Vec<String> {
        let first = self.first;
        let [os, l, or, g, rtt] = PARAMETERS.map(|parameter| self.median(parameter));
        let mut cells = vec![first.driver.to_string(), self.transport().to_owned(), first.mode.clone()];
        cells.push(bytes(first.layout.size));
        cells.extend([os, l, or, g, rtt].map(|ns| format!("{:.2} µs", ns / 1e3)));
        cells.extend([times(g / (os + or).max(1.0)), self.lost().to_string()]);
        cells
    }

    fn line(&self, cores: &Value) -> Value {
        let first = self.first;
        let mut line = json!({
            "bench": "logp", "via": first.driver.name(), "mode": first.mode, "framing": first.framing,
            "size": first.layout.size,
        });
        for parameter in PARAMETERS {
            line[format!("{}_ns", parameter.0)] = json!(digits(self.median(parameter), 10.0));
        }
        let range = |parameter| self.spread(parameter).map(|of| [of.least, of.most].map(|ns| digits(ns, 10.0)));
        line["range"] =
            PARAMETERS.map(|parameter| (format!("{}_ns", parameter.0), json!(range(parameter)))).into_iter().collect();
        line["rounds"] = json!(self.rounds.len());
        line["lost"] = json!(self.lost());
        line["batching"] = json!(first.batching);
        if let Some(at) = first.xdp {
            line["xdp"] = json!(at);
        }
        line["cores"] = cores.clone();
        line["transport"] = json!(self.transport());
        line["mtu"] = json!(self.part.mtu);
        line
    }

    /// This row's parameters over another's.
    fn ratios(&self, under: &Row<'_>) -> Value {
        let mut line = json!({
            "over": self.first.driver.name(), "under": under.first.driver.name(), "transport": self.transport(),
            "size": self.first.layout.size,
        });
        for parameter in COMPARED {
            line[parameter.0] = json!(self.ratio(under, parameter).map(|ratio| digits(ratio, 1e4)));
        }
        line
    }
}
