//! The plot: the time of a null message, and null messages a second, over the members of the group.

use am_measure::Error;
use am_measure::chart::{self, COLOURS, Curve, Horizontal, Names, Panel, Vertical};
use am_measure::report::{metric, nanoseconds};

use crate::measured::{Figure, Figures};
use crate::work::Work;

impl Figures {
    /// Both panels, as SVG.
    pub(crate) fn svg(&self) -> Result<String, Error> {
        let title = format!("ordered multicast over {}; {} cores", self.conditions.transport, self.conditions.usable);
        let time = Vertical::Decades(&|ns| nanoseconds(ns as u64));
        let rate = Vertical::Decades(&|rate| metric(rate) + "/s");
        let panels = vec![
            self.panel("null message, until its sender has it (p50)", Figure::Own, time),
            self.panel("null messages a second, one sender", Figure::Rate, rate),
        ];
        chart::svg(&title, &[panels], 700, 450)
    }

    fn panel<'a>(&self, title: &str, figure: Figure, y: Vertical<'a>) -> Panel<'a> {
        let curves = self.stacks().filter(|stack| !stack.is_variant()).zip(COLOURS).map(|(stack, colour)| {
            let points = self.members.iter().filter_map(|members| {
                let work = match figure {
                    Figure::Rate => Work::stream(stack, *members, 0),
                    _ => Work::null(stack, *members),
                };
                Some((*members as f64, self.figure(work, figure)?))
            });
            let mut curve = Curve::line(stack.name(), colour, points);
            curve.dots.clone_from(&curve.points);
            curve
        });
        let ticks: Vec<f64> = self.members.iter().map(|members| *members as f64).collect();
        let x = Horizontal("members", ticks, &|members| format!("{members}"));
        Panel::new(title.to_owned(), curves.collect(), Names::AtEnds, x, y)
    }
}
