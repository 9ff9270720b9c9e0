//! The tables, the lines of JSON, and the picture: the phases by size over each transport, and the memory copies.

use serde_json::json;
use strum::VariantArray;

use super::calls::{Call, NULL_CALL};
use super::copies::{self, Kind};
use super::exchange::Sampled;
use super::{Cache, Messages, Part, Phases};
use am_measure::chart::{self, COLOURS, Curve, Horizontal, Label, Names, Panel, SeriesLabelPosition, Vertical};
use am_measure::report::{Cell, Column, Report, metric, rounds, tenths};
use am_measure::{Error, median, quantile};

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

type MessageRow<'a> = (&'a Part, &'a Messages);

fn message_columns<'a>() -> [Column<MessageRow<'a>>; 27] {
    use Cache::{Cold, Warm};
    const SEND: Phase = PHASES[0];
    const RECEIVE: Phase = PHASES[1];
    const TOUCH: Phase = PHASES[2];
    [
        ("", "part", |_| Cell::text("message")),
        (">size", "size", |(_, of)| Cell::Size(of.size)),
        ("", "mode", |(part, _)| Cell::text(&part.mode)),
        ("", "transport", |(part, _)| Cell::text(&part.transport)),
        ("", "mtu", |(part, _)| Cell::Count(part.mtu.into())),
        (">send", "", |(_, of)| of.at(SEND, Warm, 0.5)),
        (">p99", "", |(_, of)| of.at(SEND, Warm, 0.99)),
        (">cold", "", |(_, of)| of.at(SEND, Cold, 0.5)),
        (">p99", "", |(_, of)| of.at(SEND, Cold, 0.99)),
        (">transfer", "transfer_ns", |(_, of)| Cell::of(of.transfer(), |of| Cell::Micros(of.median))),
        ("", "transfer_range_ns", |(_, of)| {
            Cell::of(of.transfer(), |of| Cell::Json(json!([of.least, of.most].map(tenths))))
        }),
        (">receive", "", |(_, of)| of.at(RECEIVE, Warm, 0.5)),
        (">p99", "", |(_, of)| of.at(RECEIVE, Warm, 0.99)),
        (">cold", "", |(_, of)| of.at(RECEIVE, Cold, 0.5)),
        (">p99", "", |(_, of)| of.at(RECEIVE, Cold, 0.99)),
        (">touch", "", |(_, of)| of.at(TOUCH, Warm, 0.5)),
        (">cold", "", |(_, of)| of.at(TOUCH, Cold, 0.5)),
        (">rtt", "", |(_, of)| Cell::of(quantile(&of.round_trips(), 0.5), Cell::Nanos)),
        (">p99", "", |(_, of)| Cell::of(quantile(&of.round_trips(), 0.99), Cell::Nanos)),
        ("", "send_ns.warm", |(_, of)| of.quantiles(SEND, Warm)),
        ("", "send_ns.cold", |(_, of)| of.quantiles(SEND, Cold)),
        ("", "receive_ns.warm", |(_, of)| of.quantiles(RECEIVE, Warm)),
        ("", "receive_ns.cold", |(_, of)| of.quantiles(RECEIVE, Cold)),
        ("", "touch_ns.warm", |(_, of)| of.quantiles(TOUCH, Warm)),
        ("", "touch_ns.cold", |(_, of)| of.quantiles(TOUCH, Cold)),
        ("", "rtt_ns", |(_, of)| quantiles(&of.round_trips())),
        ("", "late", |(_, of)| Cell::Count(of.rounds.iter().map(|round| round.late).sum())),
    ]
}

const COPY_COLUMNS: &[Column<(Kind, usize, Vec<f64>)>] = &[
    ("", "part", |_| Cell::text("copy")),
    ("", "kind", |(kind, ..)| Cell::text(kind.into_str())),
    ("", "size", |(_, size, _)| Cell::Size(*size)),
    ("", "bytes_per_s.p50", |(.., rates)| rate(median(rates))),
    ("", "bytes_per_s.p1", |(.., rates)| rate(slowest(rates))),
    ("", "n", |(.., rates)| Cell::Size(rates.len())),
    ("", "transport", |_| Cell::text("memory")),
];

fn call_columns<'a>() -> [Column<(&'a Part, &'a Call)>; 9] {
    [
        ("", "part", |_| Cell::text("call")),
        ("call", "call", |(_, call)| Cell::text(call.name)),
        ("over", "transport", |(part, _)| Cell::text(&part.transport)),
        (">p50", "ns.p50", |(_, call)| Cell::Tenths(call.quantile(0.5))),
        (">p99", "ns.p99", |(_, call)| Cell::Tenths(call.quantile(0.99))),
        (">times getppid", "over_getppid", |(part, call)| Cell::of(part.over_null(call), Cell::Times)),
        ("", "n", |(_, call)| Cell::Size(call.times.len())),
        ("", "mtu", |(part, _)| Cell::Count(part.mtu.into())),
        ("", "mode", |(part, _)| Cell::text(&part.mode)),
    ]
}

fn rate(rate: Option<f64>) -> Cell {
    Cell::of(rate, |rate| Cell::Rate(rate, "B/s"))
}

impl Phases {
    pub(super) fn report(&self) -> Report {
        let title = "phases: a message of Directed Point, its send, transfer and receive phase measured apart";
        let mut report = Report::new("phases", title);
        for part in &self.parts {
            report.say(format_args!("over {}, {}, frames of {} B\n", part.transport, part.mode, part.mtu));
            let rows: Vec<MessageRow<'_>> = part.messages.iter().map(|messages| (part, messages)).collect();
            report.rows(&message_columns(), &rows);
        }
        report.text += LEGEND;
        report.say("\nmemory copies, bytes a second: the median, and the slowest one in a hundred\n");
        let kinds = Kind::VARIANTS.iter();
        let kinds = kinds.flat_map(|kind| [format!(">{}", kind.into_str().replace('_', " ")), ">slowest".to_owned()]);
        let heads: Vec<String> = [">size".to_owned()].into_iter().chain(kinds).collect();
        let row = |size: usize| {
            let rates = |kind: &Kind| self.copies.of(*kind, size);
            let cells = Kind::VARIANTS.iter().map(rates).flat_map(|rates| [rate(median(rates)), rate(slowest(rates))]);
            [Cell::Size(size)].into_iter().chain(cells).collect()
        };
        report.grid(&heads, copies::SIZES.map(row).into());
        report.lines(COPY_COLUMNS, &self.copies.batches);
        report.say("the calls' own cost, in batches of 64\n");
        report.rows(&call_columns(), &self.calls());
        report.say(format_args!(
            "the last cache has {} MiB, to make a call cold {} MiB are read; the clock's own cost is subtracted",
            self.caches.last >> 20,
            self.caches.evicting >> 20
        ));
        report.footer(format_args!("{}, transports taken in turn", rounds(self.rounds)), self.cores, None);
        report.summary(json!({
            "rounds": self.rounds, "last_cache_bytes": self.caches.last, "evicting_bytes": self.caches.evicting,
        }));
        report
    }

    fn calls(&self) -> Vec<(&Part, &Call)> {
        self.parts.iter().flat_map(|part| part.calls.iter().map(move |call| (part, call))).collect()
    }
}

impl Part {
    fn over_null(&self, call: &Call) -> Option<f64> {
        let null = self.calls.iter().find(|call| call.name == NULL_CALL)?.quantile(0.5);
        (null > 0.0).then(|| call.quantile(0.5) / null)
    }
}

impl Messages {
    fn at(&self, (_, of): Phase, cache: Cache, share: f64) -> Cell {
        Cell::of(quantile(&self.all(|round| of(round, cache)), share), Cell::Nanos)
    }

    fn quantiles(&self, (_, of): Phase, cache: Cache) -> Cell {
        quantiles(&self.all(|round| of(round, cache)))
    }

    fn round_trips(&self) -> Vec<u64> {
        self.all(|round| &round.round_trips)
    }
}

fn quantiles(all: &[u64]) -> Cell {
    Cell::Json(json!({ "p50": quantile(all, 0.5), "p99": quantile(all, 0.99), "n": all.len() }))
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

impl Phases {
    pub(crate) fn svg(&self) -> Result<String, Error> {
        let mut panels: Vec<Panel<'_>> = self.parts.iter().map(Part::panel).collect();
        panels.push(self.copies_panel());
        let mut rows = vec![];
        while !panels.is_empty() {
            rows.push(panels.drain(..panels.len().min(2)).collect());
        }
        chart::svg("phases of a Directed Point message, and memory copies; medians", &rows, 620, 420)
    }

    fn copies_panel(&self) -> Panel<'_> {
        let curve = |(kind, colour): (Kind, _)| {
            let point = |size: usize| Some((size as f64, median(self.copies.of(kind, size))?));
            Curve::line(kind.into_str().replace('_', " "), colour, copies::SIZES.into_iter().filter_map(point))
        };
        let curves: Vec<Curve> = Kind::VARIANTS.iter().copied().zip(COLOURS).map(curve).collect();
        let title = "memory copies by size: bytes a second".to_owned();
        panel(title, curves, SeriesLabelPosition::LowerRight, &|rate| format!("{}B/s", metric(rate)))
    }
}

impl Part {
    fn panel(&self) -> Panel<'_> {
        let mut colours = COLOURS.into_iter();
        let mut curves = vec![];
        for (name, of) in [PHASES[0], PHASES[1]] {
            for cache in [Cache::Warm, Cache::Cold] {
                let points = self.messages.iter().filter_map(|messages| {
                    let all = messages.all(|round| of(round, cache));
                    Some((messages.size as f64, quantile(&all, 0.5)? as f64 / 1e3))
                });
                curves.push((format!("{name}, {}", cache.into_str()), points.collect::<Vec<_>>()));
            }
        }
        let transfer =
            self.messages.iter().filter_map(|messages| Some((messages.size as f64, messages.transfer()?.median / 1e3)));
        curves.push(("transfer".to_owned(), transfer.collect()));
        let drawn = curves.into_iter().filter_map(|(name, points)| Some(Curve::line(name, colours.next()?, points)));
        let title = format!("over {}, {}: time by size; a negative transfer is left out", self.transport, self.mode);
        panel(title, drawn.collect(), SeriesLabelPosition::UpperLeft, &|time| format!("{time} µs"))
    }
}

fn panel<'a>(title: String, curves: Vec<Curve>, corner: SeriesLabelPosition, label: Label<'a>) -> Panel<'a> {
    let powers = (0..=18).step_by(2).map(|power| f64::from(1u32 << power)).collect();
    let x = Horizontal("bytes", powers, &|size| format!("{size:.0}"));
    Panel::new(title, curves, Names::Box(corner), x, Vertical::Decades(label))
}
