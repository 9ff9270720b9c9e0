//! The tables, the lines of JSON and the summary.

use am_measure::Spread;
use am_measure::report::{Cell, Column, Report, bytes, range, rounds, short, times};
use serde_json::{Map, Value, json};

use crate::measured::{Figure, Figures, Work};
use crate::route::{COLLECTIVES, GROUP, Route, Way};

/// A line of JSON.
struct Row<'a> {
    of: &'a Figures,
    route: Route,
    work: Work,
}

impl Row<'_> {
    fn figure(&self, figure: Figure, cell: fn(f64) -> Cell) -> Cell {
        self.of.figure(self.route, &self.work, figure).map_or(Cell::Absent, cell)
    }

    fn by_round(&self, figure: Figure) -> Cell {
        let all = self.of.by_round(self.route, &self.work, figure);
        Cell::Json(all.into_iter().map(|(_, value)| value.round()).collect())
    }
}

fn columns<'a>() -> [Column<Row<'a>>; 9] {
    [
        ("route", "route", |row| Cell::text(row.route.name())),
        ("way", "way", |row| Cell::text(&row.work.way)),
        ("call", "call", |row| Cell::text(&row.work.call)),
        (">size", "size", |row| Cell::Size(row.work.size)),
        (">p50", "p50_ns", |row| row.figure(Figure::Time, Cell::Time)),
        (">p99", "p99_ns", |row| row.figure(Figure::Tail, Cell::Time)),
        (">messages", "messages_per_s", |row| row.figure(Figure::Messages, |rate| Cell::Rate(rate, "/s"))),
        (">CPU", "cpu_ns", |row| row.figure(Figure::Cpu, Cell::Time)),
        ("", "p50_by_round", |row| row.by_round(Figure::Time)),
    ]
}

/// A ratio that is wanted.
struct Gate {
    name: &'static str,
    what: &'static str,
    ratio: fn(&Figures) -> Option<Spread>,
    /// At most this, or with `is_least` at least.
    limit: f64,
    is_least: bool,
}

fn small(of: &Figures, over: Route, under: Route, way: Way) -> Option<Spread> {
    of.ratio(over, under, &Work::pair(way, *of.sizes.first()?), Figure::Time)
}

/// The route of the slowest transform beside PVM's direct route.
fn transform(of: &Figures, over: Route) -> Option<Spread> {
    let ratios =
        of.slaves.iter().filter_map(|slaves| of.ratio(over, over.beside(), &of.transform(*slaves)?, Figure::Time));
    ratios.max_by(|one, other| one.median.total_cmp(&other.median))
}

const GATES: [Gate; 8] = [
    Gate {
        name: "pvmam_over_direct_latency",
        what: "half of a round trip of the smallest message: xdp over PVM's direct route, psend and nrecv, both spin",
        ratio: |of| small(of, Route::Xdp, Route::Direct, Way::PsendSpin),
        limit: 1.0 / 3.0,
        is_least: false,
    },
    Gate {
        name: "pvmam_over_direct_bandwidth",
        what: "bytes a second of the best size: xdp over PVM's direct route, psend and precv",
        ratio: |of| of.peak_ratio(Route::Xdp, Route::Direct, Way::Psend),
        limit: 2.0,
        is_least: true,
    },
    Gate {
        name: "precv_latency",
        what: "the first, with precv: PVM sleeps, ours spins for 20 µs and then sleeps",
        ratio: |of| small(of, Route::Xdp, Route::Direct, Way::Psend),
        limit: 1.0 / 3.0,
        is_least: false,
    },
    Gate {
        name: "udp_latency",
        what: "the first, over UDP",
        ratio: |of| small(of, Route::Udp, Route::Direct, Way::PsendSpin),
        limit: 1.0 / 3.0,
        is_least: false,
    },
    Gate {
        name: "shm_latency",
        what: "the first, over shared memory",
        ratio: |of| small(of, Route::Shm, Route::Direct, Way::PsendSpin),
        limit: 0.1,
        is_least: false,
    },
    Gate {
        name: "shm_bandwidth",
        what: "the second: shared memory over PVM's direct route between tasks of one host",
        ratio: |of| of.peak_ratio(Route::Shm, Route::DirectNear, Way::Psend),
        limit: 2.0,
        is_least: true,
    },
    Gate {
        name: "fft_udp",
        what: "the transform with the number of slaves that is worst for ours: over UDP, over PVM's direct route",
        ratio: |of| transform(of, Route::Udp),
        limit: 1.0,
        is_least: false,
    },
    Gate {
        name: "fft_shm",
        what: "the same on one host: shared memory, over PVM's direct route",
        ratio: |of| transform(of, Route::Shm),
        limit: 1.0,
        is_least: false,
    },
];

impl Gate {
    fn is_reached(&self, ratio: f64) -> bool {
        if self.is_least { ratio >= self.limit } else { ratio <= self.limit }
    }

    fn sentence(&self, of: &Figures) -> String {
        let Some(ratio) = (self.ratio)(of) else { return String::new() };
        let verdict = if self.is_reached(ratio.median) { "reached" } else { "not reached" };
        let wanted = if self.is_least { "at least" } else { "at most" };
        let (median, rounds) = (times(ratio.median), range(&ratio));
        let limit = times(self.limit);
        format!(
            "  {:<28} {median:>5} ({rounds}), {wanted} {limit} wanted: {verdict}\n{:<31}{}\n",
            self.name, "", self.what
        )
    }

    fn json(&self, of: &Figures) -> Option<Value> {
        let Spread { median, least, most } = (self.ratio)(of)?;
        let bound = if self.is_least { "at_least" } else { "at_most" };
        Some(json!({
            "name": self.name, "what": self.what, "ratio": short(median), "range": [short(least), short(most)],
            bound: short(self.limit), "reached": self.is_reached(median),
        }))
    }
}

impl Figures {
    pub(crate) fn report(&self) -> Report {
        let title = format!("pvm: unchanged programs of {}, by its own routes and by active messages", self.version);
        let mut report = Report::new("pvm", title);
        let works = self.works();
        let rows = Route::ALL.into_iter().flat_map(|route| works.iter().map(move |work| (route, work)));
        let rows = rows.filter(|(route, work)| {
            [Figure::Time, Figure::Messages].iter().any(|figure| self.figure(*route, work, *figure).is_some())
        });
        let rows: Vec<Row<'_>> = rows.map(|(route, work)| Row { of: self, route, work: work.clone() }).collect();
        report.lines(&columns(), &rows);
        Way::ALL.into_iter().for_each(|way| self.pair_tables(&mut report, way));
        self.group_table(&mut report);
        self.transform_tables(&mut report);
        self.losses(&mut report);
        for route in Route::ALL {
            report.say(format_args!("  {:<12} {}", route.name(), route.what()));
        }
        report.say(format_args!("  {:<12} {}, for xdp, udp and shm", "library", self.library));
        report.say("\nwanted\n");
        GATES.iter().for_each(|gate| report.text += &gate.sentence(self));
        report.say(PAPER);
        report.footer(format_args!("{}, routes taken in turn", rounds(self.rounds)), self.cores, None);
        report.summary(self.summary());
        report
    }

    fn summary(&self) -> Value {
        let ratio = |gate: &Gate| Some((gate.name.to_owned(), short((gate.ratio)(self)?.median)));
        let mut all: Map<String, Value> = GATES.iter().filter_map(ratio).collect();
        all.insert("rounds".to_owned(), json!(self.rounds));
        all.insert("gates".to_owned(), GATES.iter().filter_map(|gate| gate.json(self)).collect());
        all.insert("direct_wins".to_owned(), self.direct_wins().into_iter().map(|lost| lost.1).collect());
        Value::Object(all)
    }

    /// A table with a line for each route.
    fn table(&self, report: &mut Report, head: &str, columns: &[String], cell: impl Fn(Route, usize) -> Option<Cell>) {
        report.say(format_args!("\n{head}\n"));
        let heads: Vec<String> =
            ["route".to_owned()].into_iter().chain(columns.iter().map(|name| format!(">{name}"))).collect();
        let line = |route: Route| -> Vec<Cell> {
            let cells = (0..columns.len()).map(|at| cell(route, at).unwrap_or(Cell::Unknown("-")));
            [Cell::text(route.name())].into_iter().chain(cells).collect()
        };
        report.grid(&heads, Route::ALL.into_iter().map(line).collect());
    }

    fn pair_tables(&self, report: &mut Report, way: Way) {
        let sizes: Vec<String> = self.sizes.iter().map(|size| bytes(*size)).collect();
        let work = |at: usize| Work::pair(way, self.sizes[at]);
        self.table(report, &format!("{}: half of a round trip, p50", way.calls()), &sizes, |route, at| {
            self.figure(route, &work(at), Figure::Time).map(Cell::Time)
        });
        self.table(report, &format!("{}: half of a round trip, p99", way.calls()), &sizes, |route, at| {
            self.figure(route, &work(at), Figure::Tail).map(Cell::Time)
        });
        self.table(report, &format!("{}: bytes a second, one way", way.calls()), &sizes, |route, at| {
            self.bytes_per_s(route, &work(at)).map(|rate| Cell::Rate(rate, "B/s"))
        });
    }

    fn group_table(&self, report: &mut Report) {
        let works: Vec<Work> =
            self.works().into_iter().filter(|work| COLLECTIVES.contains(&work.call.as_str())).collect();
        if works.is_empty() {
            return;
        }
        let heads: Vec<String> = works.iter().map(|work| format!("{} {}", work.call, bytes(work.size))).collect();
        let head = format!("calls of a group of {GROUP} tasks on two hosts, by shm and direct-near on one, p50");
        self.table(report, &head, &heads, |route, at| self.figure(route, &works[at], Figure::Time).map(Cell::Time));
    }

    fn transform_tables(&self, report: &mut Report) {
        if self.slaves.is_empty() {
            return report.say("");
        }
        let heads: Vec<String> =
            self.slaves.iter().map(|slaves| format!("{slaves} slave{}", if *slaves == 1 { "" } else { "s" })).collect();
        self.table(report, "Fourier transform of 1152 x 1152 numbers: time", &heads, |route, at| {
            self.figure(route, &self.transform(self.slaves[at])?, Figure::Time).map(Cell::Time)
        });
        self.table(report, "Fourier transform: times as fast as with one slave", &heads, |route, at| {
            self.speed_up(route, self.slaves[at]).map(Cell::Times)
        });
        report.say("");
    }

    /// Where PVM's own route between the same places is the better one: a sentence, and the same for the summary.
    fn direct_wins(&self) -> Vec<(String, Value)> {
        let mut wins = vec![];
        for route in Route::ALL.into_iter().filter(|route| route.is_active()) {
            for work in self.works() {
                for (figure, name, is_win) in [
                    (Figure::Time, "time", (|ratio| ratio > 1.0) as fn(f64) -> bool),
                    (Figure::Messages, "rate", |ratio| ratio < 1.0),
                ] {
                    let Some(ratio) = self.ratio(route, route.beside(), &work, figure) else { continue };
                    if is_win(ratio.median) {
                        let what =
                            if work.call.is_empty() { work.way.clone() } else { format!("{} {}", work.way, work.call) };
                        let size = work.extent();
                        let sentence =
                            format!("  {:<6} {what:<20} {size:>10}: {name} {}", route.name(), times(ratio.median));
                        let json =
                            json!({"route": route.name(), "what": what, "size": work.size, name: short(ratio.median)});
                        wins.push((sentence, json));
                    }
                }
            }
        }
        wins
    }

    fn losses(&self, report: &mut Report) {
        let wins = self.direct_wins();
        let head = if wins.is_empty() {
            "PVM's direct route is nowhere the better one"
        } else {
            "where PVM's direct route is the better one: ours over it"
        };
        report.say(format_args!("{head}\n"));
        wins.iter().for_each(|(sentence, _)| report.say(sentence));
        report.say("");
    }
}

/// The paper's own figures, which are plots.
const PAPER: &str = "\nPVMAM over PVM in the paper: on Myrinet more than twice the bandwidth of the direct route (figure 4) and a lower latency at each size \
                     (figure 5); over ATM\n1 % less bandwidth (figure 2); the transform a little faster with each number of processors (figures 6 and 7)\n";

#[cfg(test)]
mod tests {
    use am_measure::Cores;

    use super::*;
    use crate::turn::{Line, Measured};

    fn line(way: &str, size: usize, p50: Option<f64>, messages: Option<f64>) -> Line {
        let text = json!({"way": way, "size": size, "p50": p50, "messages": messages});
        serde_json::from_value(text).unwrap()
    }

    /// Two rounds; in the second all is twice as slow. Ours takes `share` of PVM's time, and has as many times its rate.
    fn figures(share: f64) -> Figures {
        let mut all = vec![];
        for round in 0..2 {
            for route in Route::ALL {
                let time = 1000.0 * (round + 1) as f64 * if route.is_active() { share } else { 1.0 };
                for way in [Way::Psend, Way::PsendSpin] {
                    all.push(Measured { round, route, line: line(way.name(), 8, Some(time), None) });
                    all.push(Measured { round, route, line: line(way.name(), 8, None, Some(1e9 / time)) });
                }
                all.push(Measured { round, route, line: line("fft:1", 1152, Some(time), None) });
            }
        }
        let cores = Cores { near: Some(0), far: Some(1) };
        Figures {
            all,
            sizes: vec![8],
            slaves: vec![1],
            cores,
            rounds: 2,
            version: "PVM 3.4.6".to_owned(),
            library: "release/libpvm_am.so".to_owned(),
        }
    }

    #[test]
    fn what_is_wanted_is_reached_or_it_is_said_that_it_is_not() {
        let reached = |figures: &Figures| -> Vec<bool> {
            let summary = figures.summary();
            summary["gates"].as_array().unwrap().iter().map(|gate| gate["reached"].as_bool().unwrap()).collect()
        };
        let good = figures(0.05);
        assert_eq!(reached(&good), [true; 8]);
        assert!(good.report().text.contains("PVM's direct route is nowhere the better one\n"));
        let bad = figures(1.5);
        assert_eq!(reached(&bad), [false; 8]);
        let said = bad.report().text;
        assert!(
            said.contains(
                "pvmam_over_direct_latency     1.50 (rounds: 1.50 to 1.50), at most 0.33 wanted: not reached\n"
            ),
            "{said}"
        );
        assert!(said.contains("  xdp    psend                       8 B: time 1.50\n"), "{said}");
        assert!(said.contains("  xdp    fft:1                1152 x 1152: time 1.50\n"), "{said}");
        assert!(said.contains("1 slave"), "{said}");
        assert!(said.contains("  library      release/libpvm_am.so, ") && !said.contains("1 slaves"), "{said}");
        assert_eq!(bad.summary()["direct_wins"].as_array().unwrap().len(), 3 * 5);
    }
}
