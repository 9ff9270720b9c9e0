//! What was measured, and the figures and ratios of rows.

use am_measure::report::bytes;
use am_measure::{Cores, Spread, median};

use crate::route::{Route, Way};
use crate::turn::{Line, Measured};

/// Everything that was measured.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) all: Vec<Measured>,
    pub(crate) sizes: Vec<usize>,
    pub(crate) slaves: Vec<usize>,
    pub(crate) cores: Cores,
    pub(crate) rounds: usize,
    /// Of PVM.
    pub(crate) version: String,
    /// The file that was loaded before PVM's library.
    pub(crate) library: String,
}

/// What was done, by any route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// As `pvm.sh` names it.
    pub(crate) way: String,
    /// Of several calls of one program.
    pub(crate) call: String,
    pub(crate) size: usize,
}

impl Work {
    pub(crate) fn pair(way: Way, size: usize) -> Work {
        Work { way: way.name().to_owned(), call: String::new(), size }
    }

    pub(crate) fn of(line: &Line) -> Work {
        Work { way: line.way.clone(), call: line.call.clone(), size: line.size }
    }

    /// What the size says: of the transform it is the rows and columns of numbers, and else bytes.
    pub(crate) fn extent(&self) -> String {
        match self.way.starts_with("fft:") {
            true => format!("{0} x {0}", self.size),
            false => bytes(self.size),
        }
    }
}

/// A figure of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    Time,
    Tail,
    Messages,
    Cpu,
}

impl Figures {
    /// What was done, each once, in its order.
    pub(crate) fn works(&self) -> Vec<Work> {
        let mut works: Vec<Work> = vec![];
        for one in &self.all {
            let work = Work::of(&one.line);
            if !works.contains(&work) {
                works.push(work);
            }
        }
        works
    }

    pub(crate) fn by_round(&self, route: Route, work: &Work, figure: Figure) -> Vec<(usize, f64)> {
        let of = |line: &Line| match figure {
            Figure::Time => line.p50,
            Figure::Tail => line.p99,
            Figure::Messages => line.messages,
            Figure::Cpu => line.cpu,
        };
        let all = self.all.iter().filter(|one| one.route == route && Work::of(&one.line) == *work);
        all.filter_map(|one| Some((one.round, of(&one.line)?))).collect()
    }

    /// The median over the rounds.
    pub(crate) fn figure(&self, route: Route, work: &Work, figure: Figure) -> Option<f64> {
        median(&self.by_round(route, work, figure).into_iter().map(|(_, value)| value).collect::<Vec<_>>())
    }

    /// Bytes a second of two tasks, one way.
    pub(crate) fn bytes_per_s(&self, route: Route, work: &Work) -> Option<f64> {
        Some(self.figure(route, work, Figure::Messages)? * work.size as f64)
    }

    /// A route's figure over that of another one.
    pub(crate) fn ratio(&self, over: Route, under: Route, work: &Work, figure: Figure) -> Option<Spread> {
        Spread::of_ratios(&self.by_round(over, work, figure), &self.by_round(under, work, figure))
    }

    /// The best size's bytes a second of a route over that of another one, in each round.
    pub(crate) fn peak_ratio(&self, over: Route, under: Route, way: Way) -> Option<Spread> {
        let peaks = |route| -> Vec<(usize, f64)> {
            let of = |round: usize| {
                let bytes = |size: &usize| {
                    let rounds = self.by_round(route, &Work::pair(way, *size), Figure::Messages);
                    rounds.into_iter().find(|(of, _)| *of == round).map(|(_, rate)| rate * *size as f64)
                };
                Some((round, self.sizes.iter().filter_map(bytes).reduce(f64::max)?))
            };
            (0..self.rounds).filter_map(of).collect()
        };
        Spread::of_ratios(&peaks(over), &peaks(under))
    }

    /// The work of the transform with this number of slaves.
    pub(crate) fn transform(&self, slaves: usize) -> Option<Work> {
        self.works().into_iter().find(|work| work.way == format!("fft:{slaves}"))
    }

    /// How many times as fast as with one slave.
    pub(crate) fn speed_up(&self, route: Route, slaves: usize) -> Option<f64> {
        let time = |slaves| self.figure(route, &self.transform(slaves)?, Figure::Time);
        Some(time(1)? / time(slaves)?)
    }
}
