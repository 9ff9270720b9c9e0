//! One JSON object a peer, with every size and every round; a summary last.

use serde_json::{Map, Value, json};

use super::offload::Offload;
use super::peer::{OneWay, Stream, Turn};
use super::rows::{Comparison, Row, Spread};
use super::table::figures;

impl Comparison {
    pub(crate) fn json(&self) -> Vec<Value> {
        self.rows.iter().map(|row| self.line(row)).chain([self.summary()]).collect()
    }

    fn line(&self, row: &Row) -> Value {
        let small = self.settings.small();
        let [p50, messages, peak] = figures(small);
        json!({
            "bench": "compare",
            "peer": row.name,
            "what": row.what,
            "wire": row.wire,
            "transport": row.transport,
            "mtu": row.mtu,
            "mode": row.mode(),
            "peer_version": row.version,
            "size": small,
            "batching": row.turns.iter().find_map(|(_, turn)| turn.stream(small)?.batching),
            "p50_ns": spread(row.spread(p50)),
            "p99_ns": spread(row.spread(|turn| turn.one_way(small)?.p99)),
            "messages_per_s": spread(row.spread(messages)),
            "peak_bytes_per_s": spread(row.spread(peak)),
            "n_half_bytes": spread(row.spread(Turn::n_half)),
            "cpu_ns": spread(row.spread(|turn| turn.stream(small)?.cpu)),
            "one_way": row.sizes().iter().filter_map(|size| one_way(row, *size)).collect::<Vec<_>>(),
            "stream": row.sizes().iter().filter_map(|size| stream(row, *size)).collect::<Vec<_>>(),
            "rounds": row.turns.iter().map(|(round, _)| round).collect::<Vec<_>>(),
            "notes": row.notes,
            "failures": row.reasons(),
            "cores": [self.settings.cores.near, self.settings.cores.far],
        })
    }

    fn summary(&self) -> Value {
        let beside = |row: &Row| -> Option<Value> {
            let ratios = self.ratios(row).into_iter();
            let ratios: Map<String, Value> =
                ratios.filter_map(|(name, ratio)| Some((name.to_owned(), json!(rounded(ratio?, 1e4))))).collect();
            (!ratios.is_empty()).then_some(Value::Object(ratios))
        };
        let over: Map<String, Value> =
            self.rows.iter().filter_map(|row| Some((row.name.to_owned(), beside(row)?))).collect();
        json!({"summary": {
            "bench": "compare",
            "size": self.settings.small(),
            "rounds": self.settings.amount.rounds,
            "mtu": self.settings.mtu,
            "offload": self.offload.map(|Offload { tso, gso, gro }| json!({"tso": tso, "gso": gso, "gro": gro})),
            "cores": [self.settings.cores.near, self.settings.cores.far],
            "over_am": over,
        }})
    }
}

fn one_way(row: &Row, size: usize) -> Option<Value> {
    let of = |figure: fn(&OneWay) -> Option<f64>| row.by_round(|turn| turn.one_way(size).and_then(figure));
    let all = [("p50_ns", of(|one| one.p50)), ("p99_ns", of(|one| one.p99)), ("mean_ns", of(|one| one.mean))];
    by_size(size, &all)
}

fn stream(row: &Row, size: usize) -> Option<Value> {
    let of = |figure: fn(&Stream) -> Option<f64>| row.by_round(|turn| turn.stream(size).and_then(figure));
    let all = [
        ("messages_per_s", of(|one| Some(one.messages))),
        ("bytes_per_s", of(|one| Some(one.bytes()))),
        ("cpu_ns", of(|one| one.cpu)),
        ("lost", of(|one| Some(one.lost as f64))),
    ];
    by_size(size, &all)
}

/// The figures of one size: the median of each, and all rounds.
fn by_size(size: usize, all: &[(&str, Vec<(usize, f64)>)]) -> Option<Value> {
    let known = all.iter().filter(|(_, by_round)| !by_round.is_empty());
    let values = known.filter_map(|(name, by_round)| {
        let values: Vec<f64> = by_round.iter().map(|(_, value)| rounded(*value, 10.0)).collect();
        let median = rounded(Spread::of(&values)?.median, 10.0);
        Some(((*name).to_owned(), json!({"median": median, "by_round": values})))
    });
    let values: Map<String, Value> = values.collect();
    if values.is_empty() {
        return None;
    }
    let size = [("size".to_owned(), json!(size))];
    Some(Value::Object(size.into_iter().chain(values).collect()))
}

fn spread(spread: Option<Spread>) -> Value {
    spread.map_or(Value::Null, |Spread { median, least, most }| {
        let [median, least, most] = [median, least, most].map(|value| rounded(value, 10.0));
        json!({"median": median, "range": [least, most]})
    })
}

fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::{comparison, row};
    use super::*;

    #[test]
    fn everything_by_size_and_round_and_ratios_in_the_end() {
        let all = comparison(vec![row("am", &[1000.0, 1100.0]), row("udp", &[2000.0, 2200.0])]);
        let lines = all.json();
        let udp = &lines[1];
        assert_eq!((&udp["peer"], &udp["size"], &udp["p50_ns"]["median"]), (&json!("udp"), &json!(64), &json!(4264.0)));
        assert_eq!(udp["one_way"][2]["p50_ns"]["by_round"], json!([8096.0, 8496.0]));
        assert_eq!(udp["one_way"][2].get("p99_ns"), None, "what is not known is not there");
        assert_eq!((&udp["p99_ns"], &udp["stream"][0]["lost"]["median"]), (&Value::Null, &json!(0.0)));
        assert_eq!(lines[2]["summary"]["offload"], json!({"tso": true, "gso": true, "gro": false}));
        let over = &lines[2]["summary"]["over_am"];
        assert!(over["udp"]["p50"].as_f64().unwrap() > 1.9 && over["am"]["bytes"] == json!(1.0), "{over}");
    }
}
