//! What a node with many flows costs, under valgrind's `callgrind`, with a simulated cache: many flows are many cache lines. It counts in
//! one function only, so the set-up of all flows takes seconds; under `lackey` it takes minutes.

use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fmt, fs};

use crate::Error;
use crate::over::Over;

/// Of a core of a few years ago.
const CACHES: [&str; 4] = ["--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,16,64"];

/// From one round trip to the next, and from one idle turn to the next.
const TRIP: Duration = Duration::from_micros(2);
const TURN: Duration = Duration::from_nanos(100);
/// From one trip to the next, where time is what counts.
const LONG_TRIP: Duration = Duration::from_millis(2);

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Round trips, one each [`TRIP`].
    Trips,
    /// Turns that find nothing, one each [`TURN`].
    Turns,
    /// Round trips, one each [`LONG_TRIP`].
    Time,
}

impl Part {
    /// How many there are. As many go before. A quiet peer is asked about every second keepalive round: in each 8.75 s.
    pub(crate) fn count(self) -> usize {
        if self == Part::Time { 8_750 } else { 1_000 }
    }

    pub(crate) fn interval(self) -> Duration {
        match self {
            Part::Trips => TRIP,
            Part::Turns => TURN,
            Part::Time => LONG_TRIP,
        }
    }
}

/// Counts of one of many.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) instructions: f64,
    /// Cache lines of code and data that come from the second cache.
    pub(crate) from_second: f64,
    /// Those that come from memory.
    pub(crate) from_memory: f64,
}

impl Counts {
    /// About how many cycles, as KCachegrind estimates them.
    pub(crate) fn cycles(&self) -> f64 {
        self.instructions + 10.0 * self.from_second + 100.0 * self.from_memory
    }

    fn each(self, other: Counts, of: impl Fn(f64, f64) -> f64) -> Counts {
        Counts {
            instructions: of(self.instructions, other.instructions),
            from_second: of(self.from_second, other.from_second),
            from_memory: of(self.from_memory, other.from_memory),
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { instructions, from_second, from_memory } = self;
        write!(f, "{instructions:>12.1} {from_second:>12.2} {from_memory:>12.2} {:>12.1}", self.cycles())
    }
}

/// A round trip and a turn that finds nothing, each with its share of what time brings.
pub(crate) fn many_flows(over: Over) -> Result<[(Part, Counts); 2], Error> {
    let [trip, turn, time] = [Part::Trips, Part::Turns, Part::Time].map(|part| count(over, part));
    let (trip, turn, time) = (trip?, turn?, time?);
    let share = |part: Part, own: Counts| {
        let share = part.interval().as_secs_f64() / Part::Time.interval().as_secs_f64();
        let brought = time.each(trip, |long, short| (long - short).max(0.0) * share);
        (part, own.each(brought, |own, brought| own + brought))
    };
    Ok([share(Part::Trips, trip), share(Part::Turns, turn)])
}

fn count(over: Over, part: Part) -> Result<Counts, Error> {
    let output = std::env::temp_dir().join(format!("am-cost-{}.callgrind", std::process::id()));
    let ended = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--toggle-collect=*many_flows::counted*"])
        .args(CACHES)
        .arg(format!("--callgrind-out-file={}", output.display()))
        .arg(std::env::current_exe()?)
        .args(["many-flows", &over.name(), &format!("{part:?}").to_lowercase()])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("valgrind: {error}; it is a package of its own"))?;
    if !ended.status.success() {
        return Err(format!("no counts over {}: {}", over.name(), String::from_utf8_lossy(&ended.stderr)).into());
    }
    let counts = parse(&fs::read_to_string(&output)?).ok_or("callgrind counted nothing")?;
    fs::remove_file(output)?;
    Ok(counts.each(Counts::default(), |all, _| all / part.count() as f64))
}

/// The totals of callgrind's file.
fn parse(file: &str) -> Option<Counts> {
    let line = |name: &str| file.lines().find_map(|line| line.strip_prefix(name));
    let totals: Vec<f64> = line("totals: ")?.split(' ').map_while(|count| count.parse().ok()).collect();
    let of = |names: &[&str]| {
        let events = line("events: ")?.split(' ').zip(totals.iter().chain(std::iter::repeat(&0.0)));
        Some(events.filter(|(event, _)| names.contains(event)).map(|(_, count)| count).sum())
    };
    let counts = Counts {
        instructions: of(&["Ir"])?,
        from_second: of(&["I1mr", "D1mr", "D1mw"])?,
        from_memory: of(&["ILmr", "DLmr", "DLmw"])?,
    };
    (counts.instructions > 0.0).then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read() {
        let file =
            "version: 1\nevents: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\nsummary: 9\ntotals: 100 30 20 5 2 1 3\n";
        let counts = Counts { instructions: 100.0, from_second: 8.0, from_memory: 3.0 };
        assert_eq!(parse(file), Some(counts));
        assert_eq!(counts.cycles(), 480.0);
        assert_eq!(parse("events: Ir\ntotals: 0\n"), None, "the function was not found");
    }
}
