//! The tables, and the lines of JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use am_measure::report::columns::digits;
use am_measure::report::table::{align, bytes, columns, metric, nanoseconds};
use am_measure::report::words::{footer, rounds, times};
use am_measure::spread::median;

use super::calls::{Call, NULL_CALL};
use super::copies::{self, Kind};
use super::exchange::Sampled;
use super::{Cache, Messages, Part, Phases, quantile};

const LEGEND: &str = concat!(
    "  send      the call of write, with its doorbell or system call, until it returns\n",
    "  transfer  half of a round trip without send, receive and touch, all warm, of one round; median of the rounds. It\n",
    "            has half of a read that found nothing too. Negative if the receiver begins before the sender's call\n",
    "            has returned: on a veth the sender's system call runs the kernel's receive path\n",
    "  receive   the call of read that finds a frame which has waited, until the message is in the pool\n",
    "  touch     the reader reads every byte of it, where receive has put it just before\n",
    "  cold      the phase to its left (send, receive or touch), after this core has read memory that displaces everything\n",
    "            else from its caches\n",
    "  rtt       a round trip of such messages\n",
    "  p99       the 99th percentile of the column to its left; the other columns are medians\n",
);

/// A phase that is sampled: its name, and its samples with warm or cold caches.
type Phase = (&'static str, fn(&Sampled, Cache) -> &[u64]);

pub(super) const PHASES: [Phase; 3] = [
    ("send", |round, cache| &round.send[cache as usize]),
    ("receive", |round, cache| &round.read[cache as usize]),
    ("touch", |round, cache| &round.touch[cache as usize]),
];

impl Phases {
    pub(crate) fn table(&self) -> String {
        let mut text =
            "phases: a message of Directed Point, its send, transfer and receive phase measured apart\n".to_owned();
        for part in &self.parts {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\nover {}, {}, frames of {} B\n", part.transport, part.mode, part.mtu);
            part.table(&mut text);
        }
        text = text + "\n" + LEGEND;
        text += "\nmemory copies, bytes a second: the median, and the slowest one in a hundred\n\n";
        self.copies_table(&mut text);
        text += "\nthe calls' own cost, in batches of 64\n\n";
        self.calls_table(&mut text);
        let caches = format!(
            "\nthe last cache has {} MiB, to make a call cold {} MiB are read; the clock's own cost is subtracted\n",
            self.caches.last >> 20,
            self.caches.evicting >> 20
        );
        let measured = format!("{}, transports taken in turn", rounds(self.rounds));
        text + &caches + &footer(&measured, self.cores, None, false)
    }

    fn copies_table(&self, text: &mut String) {
        let mut heads = vec![("size", true)];
        heads.extend(Kind::ALL.iter().flat_map(|kind| [(kind.name(), true), ("slowest", true)]));
        let row = |size: usize| {
            let cells = Kind::ALL.iter().flat_map(|kind| {
                let rates = self.copies.of(*kind, size);
                [median(rates), slowest(rates)]
                    .map(|rate| rate.map_or(String::new(), |rate| format!("{}B/s", metric(rate))))
            });
            [bytes(size)].into_iter().chain(cells).collect()
        };
        align(&heads, &copies::SIZES.into_iter().map(row).collect::<Vec<_>>(), text);
    }

    fn calls_table(&self, text: &mut String) {
        let heads = columns(["call", "over", ">p50", ">p99", ">times getppid"]);
        let rows = self.parts.iter().flat_map(|part| {
            part.calls.iter().map(|call| {
                let [p50, p99] = [0.5, 0.99].map(|share| format!("{:.1} ns", call.quantile(share)));
                let ratio = part.over_null(call).map_or(String::new(), times);
                vec![call.name.to_owned(), part.transport.to_owned(), p50, p99, ratio]
            })
        });
        align(&heads, &rows.collect::<Vec<_>>(), text);
    }

    pub(crate) fn json(&self) -> Vec<Value> {
        let cores = json!([self.cores.near, self.cores.far]);
        let messages = self.parts.iter().flat_map(|part| part.messages.iter().map(|of| of.line(part)));
        let copies = self.copies.batches.iter().map(|(kind, size, rates)| {
            let rates_of = json!({ "p50": median(rates).map(f64::round), "p1": slowest(rates).map(f64::round) });
            json!({ "bench": "phases", "part": "copy", "kind": kind.key(), "size": size, "bytes_per_s": rates_of,
                "n": rates.len(), "transport": "memory" })
        });
        let calls = self.parts.iter().flat_map(|part| part.calls.iter().map(|call| part.call_line(call)));
        let mut lines: Vec<Value> = messages.chain(copies).chain(calls).collect();
        lines.iter_mut().for_each(|line| line["cores"] = cores.clone());
        let summary = json!({
            "bench": "phases", "rounds": self.rounds, "cores": cores, "last_cache_bytes": self.caches.last,
            "evicting_bytes": self.caches.evicting,
        });
        lines.push(json!({ "summary": summary }));
        lines
    }
}

impl Part {
    fn table(&self, text: &mut String) {
        let heads = columns([
            ">size",
            ">send",
            ">p99",
            ">cold",
            ">p99",
            ">transfer",
            ">receive",
            ">p99",
            ">cold",
            ">p99",
            ">touch",
            ">cold",
            ">rtt",
            ">p99",
        ]);
        let row = |messages: &Messages| {
            let cell = |phase: Phase, cache, share| {
                let all = messages.all(|round| phase.1(round, cache));
                quantile(&all, share).map_or(String::new(), nanoseconds)
            };
            let four =
                |phase| Cache::BOTH.into_iter().flat_map(move |cache| [(phase, cache, 0.5), (phase, cache, 0.99)]);
            let mut cells = vec![bytes(messages.size)];
            cells.extend(four(PHASES[0]).map(|(phase, cache, share)| cell(phase, cache, share)));
            let transfer = messages.transfer().map(|of| format!("{:.2} µs", of.median / 1e3));
            cells.push(transfer.unwrap_or_default());
            cells.extend(four(PHASES[1]).map(|(phase, cache, share)| cell(phase, cache, share)));
            cells.extend(Cache::BOTH.map(|cache| cell(PHASES[2], cache, 0.5)));
            let trips = messages.all(|round| &round.round_trips);
            cells.extend([0.5, 0.99].map(|share| quantile(&trips, share).map_or(String::new(), nanoseconds)));
            cells
        };
        align(&heads, &self.messages.iter().map(row).collect::<Vec<_>>(), text);
    }

    fn over_null(&self, call: &Call) -> Option<f64> {
        let null = self.calls.iter().find(|call| call.name == NULL_CALL)?.quantile(0.5);
        (null > 0.0).then(|| call.quantile(0.5) / null)
    }

    fn call_line(&self, call: &Call) -> Value {
        json!({
            "bench": "phases", "part": "call", "call": call.name,
            "ns": { "p50": digits(call.quantile(0.5), 10.0), "p99": digits(call.quantile(0.99), 10.0) },
            "over_getppid": self.over_null(call).map(|ratio| digits(ratio, 1e4)), "n": call.times.len(),
            "transport": self.transport, "mtu": self.mtu, "mode": self.mode,
        })
    }
}

impl Messages {
    fn line(&self, part: &Part) -> Value {
        let quantiles =
            |all: Vec<u64>| json!({ "p50": quantile(&all, 0.5), "p99": quantile(&all, 0.99), "n": all.len() });
        let mut line = json!({ "bench": "phases", "part": "message", "size": self.size, "mode": part.mode, "transport": part.transport,
            "mtu": part.mtu });
        for (name, of) in PHASES {
            for cache in Cache::BOTH {
                line[format!("{name}_ns")][cache.name()] = quantiles(self.all(|round| of(round, cache)));
            }
        }
        let transfer = self.transfer();
        line["transfer_ns"] = json!(transfer.map(|of| digits(of.median, 10.0)));
        line["transfer_range_ns"] = json!(transfer.map(|of| [of.least, of.most].map(|ns| digits(ns, 10.0))));
        line["rtt_ns"] = quantiles(self.all(|round| &round.round_trips));
        line["late"] = json!(self.rounds.iter().map(|round| round.late).sum::<u64>());
        line
    }
}

impl Call {
    fn quantile(&self, share: f64) -> f64 {
        let tenths: Vec<u64> = self.times.iter().map(|ns| (ns * 10.0).round() as u64).collect();
        quantile(&tenths, share).unwrap_or_default() as f64 / 10.0
    }
}

/// The rate that one batch in a hundred does not reach.
fn slowest(rates: &[f64]) -> Option<f64> {
    let rounded: Vec<u64> = rates.iter().map(|rate| rate.round() as u64).collect();
    quantile(&rounded, 0.01).map(|rate| rate as f64)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::caches::Caches;
    use super::super::copies::Copies;
    use super::super::tests::sampled;
    use super::*;
    use am_measure::cores::Cores;

    pub(in super::super) fn phases() -> Phases {
        let rounds = || vec![sampled(1000, 500, 100, 6000), sampled(1200, 500, 100, 6400)];
        let messages = [1, 1500].map(|size| Messages { size, rounds: rounds() }).into();
        let call = |name, ns: f64| Call { name, times: vec![ns; 9] };
        let calls = vec![call(NULL_CALL, 80.0), call("read, finds nothing", 20.0)];
        let part = Part { transport: "shm", mtu: 1500, mode: "shared memory".to_owned(), messages, calls };
        let rates = |kind| (kind, 1024, (1..=200).map(|nth| f64::from(nth) * 1e8).collect());
        let copies = Copies { batches: Kind::ALL.map(rates).into() };
        let caches = Caches { last: 32 << 20, evicting: 64 << 20 };
        Phases { parts: vec![part], copies, caches, cores: Cores { near: None, far: None }, rounds: 2 }
    }

    #[test]
    fn each_phase_has_its_median_and_tail() {
        let lines = phases().json();
        assert_eq!(lines.len(), 2 + 3 + 2 + 1);
        let first = &lines[0];
        assert_eq!(first["send_ns"]["warm"], json!({ "p50": 1200, "p99": 1200, "n": 6 }));
        assert_eq!(first["receive_ns"]["cold"]["p50"], json!(2000));
        assert_eq!((&first["transfer_ns"], &first["transfer_range_ns"]), (&json!(1400.0), &json!([1400.0, 1400.0])));
        assert_eq!(lines[2]["bytes_per_s"]["p1"], json!(3e8));
        assert_eq!(lines[6]["over_getppid"], json!(0.25));
        assert_eq!(lines[7]["summary"]["evicting_bytes"], json!(64 << 20));
    }

    #[test]
    fn the_tables_have_all_of_it() {
        let text = phases().table();
        for word in ["over shm, shared memory", "1.40 µs", "memory to memory", "20.0 ns", "0.25", "64 MiB are read"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
}
