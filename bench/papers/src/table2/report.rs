//! The table, the paper's below it, the wanted ratios; and the lines of JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use am_measure::driver::Driver;
use am_measure::loops::latency::{RoundTrips, round_trips};
use am_measure::plan::Bench::{Bandwidth, Latency};
use am_measure::report::columns::digits;
use am_measure::report::table::{align, columns, metric, nanoseconds};
use am_measure::report::words::{footer, rounds, times, xdp};
use am_measure::spread::Spread;
use am_measure::stats::Outcome;
use am_measure::wire::WireRate;

use super::paper::{PaperRow, ROWS};
use super::{GATES, Gate, LINES, Line, RAW_BURSTS, RAW_COPIED, TCP, TCP_NAGLE, TCP_SLEEPING, Table2, name};

/// What the columns are. docs/measuring.md has more.
const LEGEND: &str = concat!(
    "  tcp/it, sleeping/it             the round trip of the row `tcp`, or of `tcp, sleeping`, over that of this row\n",
    "  /tcp, /Nagle                    this row's bandwidth over that of the row `tcp`, or of `tcp, Nagle`\n",
    "  /raw, /copied, /bursts          the same over the row `raw`, `raw, copied` or `raw, bursts`\n",
);
const WIRE_LEGEND: &str = "  of rate, of payload             this row's bandwidth over the rate of the wire, and over the payload that it carries\n";

/// The shares of a wire stand beside the bandwidth.
const OF_WIRE_AT: usize = 6;

/// The ratios of a row: the name in JSON, the bench, the rows over and under; `None` stands for the row itself.
type Ratio = (&'static str, am_measure::plan::Bench, Option<Driver>, Option<Driver>);

const RATIOS: [Ratio; 7] = [
    ("rtt_tcp_over", Latency, Some(TCP), None),
    ("rtt_tcp_sleeping_over", Latency, Some(TCP_SLEEPING), None),
    ("bandwidth_over_tcp", Bandwidth, None, Some(TCP)),
    ("bandwidth_over_tcp_nagle", Bandwidth, None, Some(TCP_NAGLE)),
    ("bandwidth_over_raw", Bandwidth, None, Some(Driver::Raw)),
    ("bandwidth_over_raw_copied", Bandwidth, None, Some(RAW_COPIED)),
    ("bandwidth_over_raw_bursts", Bandwidth, None, Some(RAW_BURSTS)),
];

impl Table2 {
    pub(crate) fn table(&self) -> String {
        let size = self.all.iter().find(|one| one.bench == Bandwidth).map_or(0, |one| one.layout.size);
        let mut text = format!("table2: round trip of 1 byte, and bandwidth of messages of {size} B, one way\n\n");
        text += &self.of_the_wire();
        let mut heads = columns([
            "row",
            ">rtt p50",
            ">p99",
            ">tcp/it",
            ">sleeping/it",
            ">bandwidth",
            ">/tcp",
            ">/Nagle",
            ">/raw",
            ">/copied",
            ">/bursts",
            ">lost",
        ])
        .to_vec();
        if self.wire.is_some() {
            heads.splice(OF_WIRE_AT..OF_WIRE_AT, columns([">of rate", ">of payload"]));
        }
        let rows: Vec<_> = LINES.iter().filter(|line| self.is_measured(line)).map(|line| self.cells(line)).collect();
        align(&heads, &rows, &mut text);
        text.push('\n');
        for (_, name, what) in LINES.iter().filter(|line| self.is_measured(line)) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {name:<14} {what}");
        }
        text = text + "\n" + LEGEND + if self.wire.is_some() { WIRE_LEGEND } else { "" };
        text += "\nthe paper's table 2, on Fast Ethernet\n\n";
        let heads = columns(["row", ">rtt", ">tcp/it", ">bandwidth", ">/tcp"]);
        align(&heads, &ROWS.iter().map(paper_cells).collect::<Vec<_>>(), &mut text);
        text += "\nwanted of dp\n\n";
        GATES.iter().for_each(|gate| text += &self.sentence(gate));
        let at = self.all.iter().find_map(|one| one.xdp).map(xdp);
        text + "\n" + &footer(&format!("{}, rows taken in turn", rounds(self.rounds())), self.cores, at, false)
    }

    /// What the wire can carry, if its rate is limited.
    fn of_the_wire(&self) -> String {
        let Some((wire, mtu)) = self.wire.zip(self.mtu) else { return String::new() };
        let (rate, payload) = (metric(wire.bytes_per_s()), metric(wire.max_payload_per_s(mtu)));
        format!("a wire of {wire}, {rate}B/s: full frames of MTU {mtu} carry {payload}B/s of payload\n\n")
    }

    fn is_measured(&self, (driver, ..): &Line) -> bool {
        self.all.iter().any(|one| one.driver == *driver)
    }

    fn round_trips(&self, driver: Driver) -> RoundTrips {
        let mut together = round_trips();
        for one in self.of(Latency, driver) {
            if let Outcome::Latency(latency) = &one.outcome {
                // Cannot fail: both have the same bounds.
                let _ = together.add(&latency.round_trips);
            }
        }
        together
    }

    fn bandwidth(&self, driver: Driver) -> Option<Spread> {
        Spread::of(self.by_round(Bandwidth, driver).into_iter().map(|(_, bytes)| bytes))
    }

    fn row_ratio(&self, driver: Driver, (_, bench, over, under): Ratio) -> Option<f64> {
        self.ratio(bench, over.unwrap_or(driver), under.unwrap_or(driver)).map(|ratio| ratio.median)
    }

    fn lost(&self, driver: Driver) -> u64 {
        self.all.iter().filter(|one| one.driver == driver).map(|one| one.lost()).sum()
    }

    fn cells(&self, &(driver, name, _): &Line) -> Vec<String> {
        let round_trips = self.round_trips(driver);
        let ratios = RATIOS.map(|ratio| self.row_ratio(driver, ratio).map_or(String::new(), times));
        let bandwidth = self.bandwidth(driver).map(|of| of.median);
        let shares = bandwidth.and_then(|bandwidth| self.of_wire(bandwidth)).map(|shares| shares.map(per_cent));
        let bandwidth = bandwidth.map_or(String::new(), |bandwidth| format!("{}B/s", metric(bandwidth)));
        let [p50, p99] = [0.5, 0.99].map(|quantile| nanoseconds(round_trips.value_at_quantile(quantile)));
        let lost = self.lost(driver).to_string();
        let (of_round_trips, of_bandwidth) = ratios.split_at(2);
        let cells = [
            &[name.to_owned(), p50, p99],
            of_round_trips,
            &[bandwidth],
            shares.as_slice().as_flattened(),
            of_bandwidth,
            &[lost],
        ];
        cells.concat()
    }

    fn sentence(&self, gate: &Gate) -> String {
        let Some(Spread { median, least, most }) = self.ratio(gate.bench, gate.over, gate.under) else {
            return String::new();
        };
        let (over, under) = (name(gate.over), name(gate.under));
        let verdict = if median >= gate.wanted { "reached" } else { "not reached" };
        match gate.bench {
            Latency => format!(
                "  the round trip of {over} takes {} times that of {under} (rounds: {} to {}); {} wanted: {verdict}\n",
                times(median),
                times(least),
                times(most),
                gate.wanted
            ),
            _ => format!(
                "  {over} has {:.1} % of the bandwidth of {under} (rounds: {:.1} to {:.1}); {:.0} % wanted: {verdict}\n",
                median * 100.0,
                least * 100.0,
                most * 100.0,
                gate.wanted * 100.0
            ),
        }
    }

    pub(crate) fn json(&self) -> Vec<Value> {
        let ours = LINES.iter().filter(|line| self.is_measured(line)).map(|(driver, ..)| self.line(*driver));
        let gates: Vec<Value> = GATES.iter().filter_map(|gate| self.gate(gate)).collect();
        let cores = json!([self.cores.near, self.cores.far]);
        let summary = json!({ "summary": {
            "bench": "table2", "rounds": self.rounds(), "cores": cores, "gates": gates, "mtu": self.mtu,
            "wire_bits_per_s": self.wire.map(WireRate::bits_per_s),
        }});
        ours.chain(ROWS.iter().map(paper_line)).chain([summary]).collect()
    }

    fn line(&self, driver: Driver) -> Value {
        let (round_trips, bandwidth) = (self.round_trips(driver), self.bandwidth(driver));
        let mut line = json!({ "bench": "table2", "via": driver.name(), "row": name(driver) });
        if let Some(one) = self.of(Bandwidth, driver).next().or(self.of(Latency, driver).next()) {
            line["mode"] =
                json!(self.wire.map_or(one.mode.clone(), |wire| format!("{}, bridge, tbf {wire}", one.mode)));
            line["framing"] = json!(one.framing);
            line["batching"] = json!(one.batching);
            line["bandwidth_size"] = json!(one.layout.size);
        }
        if driver.is_kernel() {
            line["transport"] = json!(if driver == Driver::Udp { "udp" } else { "tcp" });
        }
        line["rtt_size"] = json!(1);
        line["rtt_ns"] = json!({
            "p50": round_trips.value_at_quantile(0.5), "p99": round_trips.value_at_quantile(0.99),
            "p99_9": round_trips.value_at_quantile(0.999),
        });
        line["n"] = json!(round_trips.len());
        line["bytes_per_s"] = json!(bandwidth.map(|of| of.median.round()));
        line["bytes_per_s_range"] = json!(bandwidth.map(|of| [of.least.round(), of.most.round()]));
        if let Some([of_rate, of_payload]) = bandwidth.and_then(|of| self.of_wire(of.median)) {
            (line["of_rate"], line["of_payload"]) = (json!(digits(of_rate, 1e4)), json!(digits(of_payload, 1e4)));
        }
        for ratio in RATIOS {
            line[ratio.0] = json!(self.row_ratio(driver, ratio).map(|ratio| digits(ratio, 1e4)));
        }
        line["lost"] = json!(self.lost(driver));
        line["cores"] = json!([self.cores.near, self.cores.far]);
        line
    }

    fn gate(&self, gate: &Gate) -> Option<Value> {
        let Spread { median, least, most } = self.ratio(gate.bench, gate.over, gate.under)?;
        Some(json!({
            "bench": gate.bench, "over": gate.over.name(), "under": gate.under.name(), "ratio": digits(median, 1e4),
            "range": [digits(least, 1e4), digits(most, 1e4)], "wanted": gate.wanted, "reached": median >= gate.wanted,
        }))
    }
}

fn per_cent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn paper_cells(row: &PaperRow) -> Vec<String> {
    let (tcp_over, over_tcp) = (times(row.tcp_over_round_trip()), times(row.bandwidth_over_tcp()));
    let (round_trip, bandwidth) = (format!("{} µs", row.round_trip), format!("{} MB/s", row.bandwidth));
    vec![row.name.to_owned(), round_trip, tcp_over, bandwidth, over_tcp]
}

fn paper_line(row: &PaperRow) -> Value {
    json!({
        "bench": "table2", "paper": row.name, "rtt_us": row.round_trip, "mbytes_per_s": row.bandwidth,
        "rtt_tcp_over": digits(row.tcp_over_round_trip(), 1e4), "bandwidth_over_tcp": digits(row.bandwidth_over_tcp(), 1e4),
        "transport": "fast ethernet",
    })
}

#[cfg(test)]
mod tests {
    use super::super::DP;
    use super::*;
    use am_measure::cores::Cores;
    use am_measure::plan::Bench;
    use am_measure::stats::measured;

    /// Two rounds, the second on a machine half as fast.
    fn figures() -> Table2 {
        let one = |driver, round_trip: u64, bandwidth: u64| {
            [(0, 1), (1, 2)].into_iter().flat_map(move |(round, slow)| {
                [
                    measured(Bench::Latency, 0, driver, round, round_trip * slow),
                    measured(Bench::Bandwidth, 0, driver, round, bandwidth / slow),
                ]
            })
        };
        let all = one(DP, 5_000, 960).chain(one(Driver::Raw, 4_000, 1000)).chain(one(TCP, 20_000, 500));
        Table2 { all: all.collect(), cores: Cores { near: None, far: None }, mtu: Some(1500), wire: None }
    }

    #[test]
    fn shares_of_the_wire_stand_beside_the_bandwidth() {
        let free = figures();
        assert!(free.table().contains("  /raw, /copied, /bursts  "), "{}", free.table());
        assert!(!free.table().contains("of rate") && free.json()[0]["of_rate"].is_null(), "{}", free.table());
        let wired = Table2 { wire: "100mbit".parse().ok(), ..free };
        let text = wired.table();
        assert!(
            text.contains("a wire of 100 Mb/s, 12.5 MB/s: full frames of MTU 1500 carry 12.2 MB/s of payload"),
            "{text}"
        );
        assert_eq!(wired.json()[0]["mode"], json!("veth copy, bridge, tbf 100 Mb/s"));
        // Of the rounds' 61,440 and 30,720 bytes a second the median.
        assert_eq!((&wired.json()[0]["of_rate"], &wired.json()[0]["of_payload"]), (&json!(0.0037), &json!(0.0038)));
    }

    #[test]
    fn ratios_are_taken_within_the_rounds() {
        let lines = figures().json();
        assert_eq!((lines.len(), &lines[0]["via"]), (3 + ROWS.len() + 1, &json!("dp")));
        assert!((lines[0]["rtt_tcp_over"].as_f64().unwrap() - 4.0).abs() < 0.01, "{}", lines[0]);
        assert_eq!(lines[0]["bandwidth_over_raw"], json!(0.96));
        assert_eq!(lines[0]["bandwidth_over_tcp_nagle"], Value::Null, "it was not measured");
    }

    #[test]
    fn what_is_wanted_is_judged() {
        let figures = figures();
        let gates = figures.json().pop().unwrap()["summary"]["gates"].clone();
        let judged: Vec<_> = gates.as_array().unwrap().iter().map(|gate| gate["reached"].as_bool().unwrap()).collect();
        assert_eq!(judged, [true, false], "those that have both rows");
        let text = figures.table();
        assert!(text.contains("3.2 wanted: reached") && text.contains("97 % wanted: not reached"), "{text}");
        assert!(text.contains("U-Net/FE"), "{text}");
    }
}
