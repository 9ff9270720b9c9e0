//! The plot: the time of a call one at a time, and calls a second 64 at once, over the size of the argument.

use am_measure::Error;
use am_measure::chart::{self, COLOURS, Curve, Horizontal, Names, Panel, Vertical};
use am_measure::report::{bytes, metric, nanoseconds};

use crate::measured::{Figure, Figures};
use crate::work::{Method, OUTSTANDING, Stack, Work};

/// Where the null call is on the axis of sizes, which is logarithmic.
const NULL_AT: f64 = 64.0;

impl Figures {
    /// Both panels, as SVG.
    pub(crate) fn svg(&self) -> Result<String, Error> {
        let title = format!("calls over {}; tonic and tarpc over TCP", self.transport);
        let [one, many] = OUTSTANDING;
        let time = Vertical::Decades(&|ns| nanoseconds(ns as u64));
        let rate = Vertical::Decades(&|rate| metric(rate) + "/s");
        let panels = vec![
            self.panel("time of a call, one at a time (p50)", Figure::Time, one, time),
            self.panel("calls a second, 64 at once", Figure::Rate, many, rate),
        ];
        chart::svg(&title, &[panels], 700, 450)
    }

    fn panel<'a>(&self, title: &str, figure: Figure, outstanding: usize, y: Vertical<'a>) -> Panel<'a> {
        let curves = Stack::ALL.into_iter().zip(COLOURS).map(|(stack, colour)| {
            let rows = self.rows.iter().filter(|work| is_echo(work, stack, outstanding));
            let points = rows.filter_map(|work| Some((place(work.size), self.figure(*work, figure)?)));
            let mut curve = Curve::line(stack.name(), colour, points);
            curve.dots.clone_from(&curve.points);
            curve
        });
        let mut ticks: Vec<f64> = self
            .rows
            .iter()
            .filter(|work| is_echo(work, Stack::Rpc, outstanding))
            .map(|work| place(work.size))
            .collect();
        ticks.dedup();
        let x = Horizontal("bytes of the argument, and of the result", ticks, &name);
        Panel::new(title.to_owned(), curves.collect(), Names::AtEnds, x, y)
    }
}

fn is_echo(work: &Work, stack: Stack, outstanding: usize) -> bool {
    (work.stack, work.method, work.outstanding) == (stack, Method::Echo, outstanding)
}

fn place(size: usize) -> f64 {
    if size == 0 { NULL_AT } else { size as f64 }
}

fn name(place: f64) -> String {
    if place == NULL_AT { "null".to_owned() } else { bytes(place as usize) }
}
