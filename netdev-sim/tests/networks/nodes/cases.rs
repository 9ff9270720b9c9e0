//! Runs that can be repeated: a seed, its setting, and a mutant. Each has a command that repeats it.

use std::fmt;

use am_netdev_sim::check::Violation;
use am_netdev_sim::{Death, MS, NetOptions, Stall, US};
use am_proto::FramingChoice;
use am_proto::mutants::{Mutant, activate};
use am_wire::Framing;

use super::{Report, Work, World};

/// The faults and the work that a run stresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// All faults, all work.
    Mixed,
    /// Nodes that restart at once, while frames of their earlier run are under way.
    Restarts,
    /// The same in bare framing, whose frames do not name the receiver's incarnation.
    BareRestarts,
    /// Windows of few messages, busy applications, and lost credit.
    SmallWindows,
    /// More senders than there is room for, and busy receivers.
    NoRoom,
    /// Sequence numbers that wrap soon, and duplicated frames.
    Wraps,
    /// Damage that Ethernet's check sequence does not detect.
    Damaged,
    /// Completions that come late.
    LateCompletions,
    /// A switch with small buffers.
    SmallSwitch,
    /// Drivers that cut, pad, split and shift.
    Drivers,
    /// Programs that do not poll for longer than the patience of their peers. Heartbeats say that they live.
    Busy,
}

/// A mutant: a bug built in on purpose, in the protocol or below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunMutant {
    /// None.
    Nothing,
    /// A mutant of the core.
    Core(Mutant),
    /// A frame is free as soon as the NIC begins to read it.
    FreedEarly,
    /// The switch stores more than it has room for.
    Overfilled,
}

/// Each mutant, by its name in the environment.
pub const MUTANT_NAMES: [(&str, RunMutant); 13] = [
    ("CreditLeak", RunMutant::Core(Mutant::CreditLeak)),
    ("CreditMadeUp", RunMutant::Core(Mutant::CreditMadeUp)),
    ("DuplicateAfterWrap", RunMutant::Core(Mutant::DuplicateAfterWrap)),
    ("LostReject", RunMutant::Core(Mutant::LostReject)),
    ("WaitsForCompany", RunMutant::Core(Mutant::WaitsForCompany)),
    ("OtherIncarnation", RunMutant::Core(Mutant::OtherIncarnation)),
    ("LengthIgnored", RunMutant::Core(Mutant::LengthIgnored)),
    ("OutOfOrder", RunMutant::Core(Mutant::OutOfOrder)),
    ("CloseForgets", RunMutant::Core(Mutant::CloseForgets)),
    ("DeadStay", RunMutant::Core(Mutant::DeadStay)),
    ("BusyIsDead", RunMutant::Core(Mutant::BusyIsDead)),
    ("FreedEarly", RunMutant::FreedEarly),
    ("Overfilled", RunMutant::Overfilled),
];

impl Setting {
    /// Each setting, by its name in the environment.
    pub const ALL: [(&str, Setting); 11] = [
        ("mixed", Setting::Mixed),
        ("restarts", Setting::Restarts),
        ("bare-restarts", Setting::BareRestarts),
        ("small-windows", Setting::SmallWindows),
        ("no-room", Setting::NoRoom),
        ("wraps", Setting::Wraps),
        ("damaged", Setting::Damaged),
        ("late-completions", Setting::LateCompletions),
        ("small-switch", Setting::SmallSwitch),
        ("drivers", Setting::Drivers),
        ("busy", Setting::Busy),
    ];

    fn draw(self, seed: u64) -> (NetOptions, Work) {
        let (mut options, mut work) = (NetOptions::from_seed(seed), Work::from_seed(seed));
        match self {
            Setting::Mixed => (),
            Setting::Restarts => {
                restarts(&mut options, &mut work);
                (work.first_number, work.window) = (Some(u32::MAX - 3), 32);
                work.framing = FramingChoice::Fixed([Framing::Split, Framing::Plain][seed as usize % 2]);
            }
            Setting::BareRestarts => {
                restarts(&mut options, &mut work);
                // Only flow ids and sequence numbers tell late frames from others.
                work.framing = FramingChoice::Fixed(Framing::Bare);
                work.first_number = None;
            }
            Setting::SmallWindows => {
                options.loss = 0.1;
                (work.window, work.extract, work.busy) = (1 + seed as u16 % 4, 2, 300 * US);
            }
            Setting::NoRoom => {
                (work.receive_frames, work.flows, work.extract, work.busy) = (8, 4, 1, 300 * US);
            }
            Setting::Wraps => {
                options.duplicate = 0.1;
                work.first_number = Some(u32::MAX - 5);
            }
            Setting::Damaged => (options.corrupt, options.check) = (0.05, false),
            Setting::LateCompletions => options.completion_delay = 20 * US,
            Setting::Drivers => options.misreports = 0.1,
            Setting::Busy => busy(&mut options, &mut work),
            Setting::SmallSwitch => (options.switch_buffer, options.rate) = (4096, 100_000_000),
        }
        (options, work)
    }
}

/// A network that loses little, and nodes that do not run for up to four times the patience.
fn busy(options: &mut NetOptions, work: &mut Work) {
    let (stalls, nodes) = (options.seed % 3 + 1, options.nodes);
    *options = NetOptions { seed: options.seed, loss: options.loss.min(0.02), ..NetOptions::calm(nodes) };
    options.faults_until = 40 * MS;
    let stall = |n: u64| {
        let from = n * options.faults_until / 4;
        Stall { node: (options.seed + n) as usize % nodes, from, until: from + (1 + n) * 2000 * MS }
    };
    options.stalls = (0..stalls).map(stall).collect();
    (work.patience, work.max_timeout, work.beacon) = (1500 * MS, 50 * MS, 5000 * MS);
    work.heartbeats = true;
}

fn restarts(options: &mut NetOptions, work: &mut Work) {
    (options.loss, options.reorder, options.reorder_by) = (0.05, 0.3, 10 * MS);
    options.stalls.clear();
    options.partitions.clear();
    let at = |n| options.faults_until * n / 8;
    options.deaths = (1..8)
        .map(|n| (n as usize % options.nodes, at(n)))
        .map(|(node, at)| Death { node, at, restart: Some(at + 50 * US) })
        .collect();
    (work.pause, work.extract, work.requests) = (300 * US, usize::MAX, 200);
}

/// A run that can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub seed: u64,
    pub setting: Setting,
    pub planted: RunMutant,
}

impl From<u64> for Case {
    /// The seed as `scripts/test` and `scripts/soak` run it.
    fn from(seed: u64) -> Case {
        Case { seed, setting: Setting::Mixed, planted: RunMutant::Nothing }
    }
}

impl Case {
    /// The case that these variables choose: `NETDEV_SIM_SEED`, `_SETTING` and `_PLANT`.
    ///
    /// # Panics
    /// A variable has a bad value.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Case {
        let seed = variable("NETDEV_SIM_SEED").map_or(1, |seed| seed.parse().expect("NETDEV_SIM_SEED=N, a number"));
        let setting = variable("NETDEV_SIM_SETTING").map_or(Setting::Mixed, |name| named(&Setting::ALL, &name));
        let planted = variable("NETDEV_SIM_PLANT").map_or(RunMutant::Nothing, |name| named(&MUTANT_NAMES, &name));
        Case { seed, setting, planted }
    }

    /// Draw the network and the work.
    pub fn draw(&self) -> (NetOptions, Work) {
        let (mut options, work) = self.setting.draw(self.seed);
        options.frees_early = self.planted == RunMutant::FreedEarly;
        options.overfills = self.planted == RunMutant::Overfilled;
        (options, work)
    }

    /// The world of this case. Its mutant stays active on this thread until another case replaces it.
    pub fn world(&self) -> World {
        activate(match self.planted {
            RunMutant::Core(bug) => Some(bug),
            _ => None,
        });
        let (options, work) = self.draw();
        World::new(options, work)
    }

    /// Run it.
    ///
    /// # Errors
    /// The violation, and the command that repeats it.
    pub fn run(&self) -> Result<Report, String> {
        self.world().run().map_err(|violation| self.failed(&violation))
    }

    /// The violation, and the command that repeats it.
    pub fn failed(&self, violation: &Violation) -> String {
        format!("seed {}: {violation}\n    {}", self.seed, self.repeat_command())
    }

    /// The command that repeats the run.
    pub fn repeat_command(&self) -> String {
        format!("{self} cargo test -p am-netdev-sim --test networks seeds::one_seed -- --exact --nocapture")
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NETDEV_SIM_SEED={}", self.seed)?;
        if self.setting != Setting::Mixed {
            write!(f, " NETDEV_SIM_SETTING={}", name_of(&Setting::ALL, self.setting))?;
        }
        if self.planted != RunMutant::Nothing {
            write!(f, " NETDEV_SIM_PLANT={}", name_of(&MUTANT_NAMES, self.planted))?;
        }
        Ok(())
    }
}

fn named<T: Copy>(all: &[(&str, T)], name: &str) -> T {
    let found = all.iter().find(|(known, _)| *known == name).map(|(_, it)| *it);
    found.unwrap_or_else(|| panic!("{name}: one of {:?}", all.iter().map(|(name, _)| *name).collect::<Vec<_>>()))
}

fn name_of<'a, T: PartialEq>(all: &[(&'a str, T)], it: T) -> &'a str {
    all.iter().find(|(_, known)| *known == it).map_or("?", |(name, _)| name)
}

/// A mutant, the setting that shows it, and a part of the violation that its checker reports.
#[derive(Clone, Copy, Debug)]
pub struct MutantCase {
    pub what: &'static str,
    pub planted: RunMutant,
    pub setting: Setting,
    pub expected: &'static str,
}

/// One mutant for each checker, or more.
pub const MUTANT_CASES: [MutantCase; 14] = {
    const fn bug(what: &'static str, planted: RunMutant, setting: Setting, says: &'static str) -> MutantCase {
        MutantCase { what, planted, setting, expected: says }
    }
    const fn core(what: &'static str, planted: Mutant, setting: Setting, says: &'static str) -> MutantCase {
        bug(what, RunMutant::Core(planted), setting, says)
    }
    [
        core("a credit leak", Mutant::CreditLeak, Setting::Mixed, "credits: "),
        core("an invented credit", Mutant::CreditMadeUp, Setting::Mixed, "credits: "),
        core("a duplicate delivered after wrap-around", Mutant::DuplicateAfterWrap, Setting::Wraps, "delivered twice"),
        core("a lost reject", Mutant::LostReject, Setting::NoRoom, "liveness: "),
        core("a sender that waits for ever to coalesce", Mutant::WaitsForCompany, Setting::Mixed, "liveness: "),
        bug("a frame freed while the NIC has it", RunMutant::FreedEarly, Setting::LateCompletions, "frames: "),
        core("an acknowledgement for the wrong incarnation", Mutant::OtherIncarnation, Setting::Restarts, "kept: "),
        bug("a switch that stores too much", RunMutant::Overfilled, Setting::SmallSwitch, "memory: "),
        core("a message handled before an earlier one", Mutant::OutOfOrder, Setting::Mixed, "order: "),
        core("an incomplete close", Mutant::CloseForgets, Setting::Mixed, "as not delivered"),
        core("flows of a dead peer that stay", Mutant::DeadStay, Setting::Mixed, "endings: "),
        core("a busy peer that is taken for a dead one", Mutant::BusyIsDead, Setting::Busy, "busy: "),
        core("a cut frame that is delivered", Mutant::LengthIgnored, Setting::Drivers, "is not what was sent"),
        bug("undetected damage", RunMutant::Nothing, Setting::Damaged, "is not what was sent"),
    ]
};

/// The seeds in which a mutant has to be caught.
const SEEDS: u64 = 2000;

/// The first run in which a checker reports `says`, and all that the run prints.
pub fn first_caught(planted: RunMutant, setting: Setting, says: &str) -> Option<(Case, String)> {
    let cases = (0..SEEDS).map(|seed| Case { seed, setting, planted });
    let found = cases.filter_map(|case| Some((case, case.run().err()?))).find(|(_, why)| why.contains(says));
    activate(None);
    found
}
