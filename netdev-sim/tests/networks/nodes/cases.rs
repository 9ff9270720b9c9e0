//! Runs that can be asked for: a seed, the setting that it is drawn for, and a
//! bug on purpose. Each has a line that repeats it.

use std::fmt;

use am_netdev_sim::check::Violation;
use am_netdev_sim::{Death, MS, Options, US};
use am_proto::FramingChoice;
use am_proto::planted::{Bug, plant};
use am_wire::Framing;

use super::{Report, Work, World};

/// What a seed is drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// All faults, all work.
    Mixed,
    /// Nodes that start again at once, while frames of their earlier run are under way.
    Restarts,
    /// The same on frames that say nothing of the run that they are for.
    BareRestarts,
    /// Windows of few messages, taken by busy applications, and news that gets lost.
    SmallWindows,
    /// More senders than there is room for, and busy receivers.
    NoRoom,
    /// Numbers that wrap soon, and frames that come twice.
    Wraps,
    /// Damage that Ethernet's check sequence does not notice.
    Damaged,
    /// Completions that come late.
    LateCompletions,
    /// A switch with little room.
    SmallSwitch,
    /// Drivers that cut, pad, split and shift.
    Drivers,
}

/// A bug on purpose: in the protocol, or below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// None.
    Nothing,
    /// One of the core's.
    Core(Bug),
    /// A frame is free as soon as the NIC has begun to read it.
    FreedEarly,
    /// The switch stores more than it has room for.
    Overfilled,
}

/// By name, as the environment says it.
pub const PLANTED: [(&str, Planted); 12] = [
    ("CreditLeak", Planted::Core(Bug::CreditLeak)),
    ("CreditMadeUp", Planted::Core(Bug::CreditMadeUp)),
    ("DuplicateAfterWrap", Planted::Core(Bug::DuplicateAfterWrap)),
    ("LostReject", Planted::Core(Bug::LostReject)),
    ("WaitsForCompany", Planted::Core(Bug::WaitsForCompany)),
    ("OtherIncarnation", Planted::Core(Bug::OtherIncarnation)),
    ("LengthIgnored", Planted::Core(Bug::LengthIgnored)),
    ("OutOfOrder", Planted::Core(Bug::OutOfOrder)),
    ("CloseForgets", Planted::Core(Bug::CloseForgets)),
    ("DeadStay", Planted::Core(Bug::DeadStay)),
    ("FreedEarly", Planted::FreedEarly),
    ("Overfilled", Planted::Overfilled),
];

impl Setting {
    /// Each, by the name that the environment says.
    pub const ALL: [(&str, Setting); 10] = [
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
    ];

    fn draw(self, seed: u64) -> (Options, Work) {
        let (mut options, mut work) = (Options::from_seed(seed), Work::from_seed(seed));
        match self {
            Setting::Mixed => (),
            Setting::Restarts => {
                restarts(&mut options, &mut work);
                (work.first_number, work.window) = (Some(u32::MAX - 3), 32);
                work.framing = FramingChoice::Fixed([Framing::Split, Framing::Plain][seed as usize % 2]);
            }
            Setting::BareRestarts => {
                restarts(&mut options, &mut work);
                // Late frames are told from others by flow ids and numbers only.
                work.framing = FramingChoice::Fixed(Framing::Bare);
                work.first_number = None;
            }
            Setting::SmallWindows => {
                options.loss = 0.1;
                (work.window, work.extract, work.rest) = (1 + seed as u16 % 4, 2, 300 * US);
            }
            Setting::NoRoom => {
                (work.receive_frames, work.flows, work.extract, work.rest) = (8, 4, 1, 300 * US);
            }
            Setting::Wraps => {
                options.duplicate = 0.1;
                work.first_number = Some(u32::MAX - 5);
            }
            Setting::Damaged => (options.corrupt, options.check) = (0.05, false),
            Setting::LateCompletions => options.completion_delay = 20 * US,
            Setting::Drivers => options.misreports = 0.1,
            Setting::SmallSwitch => (options.switch_buffer, options.rate) = (4096, 100_000_000),
        }
        (options, work)
    }
}

fn restarts(options: &mut Options, work: &mut Work) {
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
    pub planted: Planted,
}

impl From<u64> for Case {
    /// As `scripts/test` and `scripts/soak` run it.
    fn from(seed: u64) -> Case {
        Case { seed, setting: Setting::Mixed, planted: Planted::Nothing }
    }
}

impl Case {
    /// The case that these variables say: `NETDEV_SIM_SEED`, `_SETTING` and `_PLANT`.
    ///
    /// # Panics
    /// They say none.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Case {
        let seed = variable("NETDEV_SIM_SEED").map_or(1, |seed| seed.parse().expect("NETDEV_SIM_SEED=N, a number"));
        let setting = variable("NETDEV_SIM_SETTING").map_or(Setting::Mixed, |name| named(&Setting::ALL, &name));
        let planted = variable("NETDEV_SIM_PLANT").map_or(Planted::Nothing, |name| named(&PLANTED, &name));
        Case { seed, setting, planted }
    }

    /// The network and the work.
    pub fn draw(&self) -> (Options, Work) {
        let (mut options, work) = self.setting.draw(self.seed);
        options.frees_early = self.planted == Planted::FreedEarly;
        options.overfills = self.planted == Planted::Overfilled;
        (options, work)
    }

    /// A world of it. Its bug is planted, on this thread, until another case is asked for.
    pub fn world(&self) -> World {
        plant(match self.planted {
            Planted::Core(bug) => Some(bug),
            _ => None,
        });
        let (options, work) = self.draw();
        World::new(options, work)
    }

    /// The run.
    ///
    /// # Errors
    /// What went wrong, and the line that repeats it.
    pub fn run(&self) -> Result<Report, String> {
        self.world().run().map_err(|violation| self.failed(&violation))
    }

    /// What went wrong, and the line that repeats it.
    pub fn failed(&self, violation: &Violation) -> String {
        format!("seed {}: {violation}\n    {}", self.seed, self.repeat())
    }

    /// The line that repeats it.
    pub fn repeat(&self) -> String {
        format!("{self} cargo test -p am-netdev-sim --test networks seeds::one_seed -- --exact --nocapture")
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NETDEV_SIM_SEED={}", self.seed)?;
        if self.setting != Setting::Mixed {
            write!(f, " NETDEV_SIM_SETTING={}", name_of(&Setting::ALL, self.setting))?;
        }
        if self.planted != Planted::Nothing {
            write!(f, " NETDEV_SIM_PLANT={}", name_of(&PLANTED, self.planted))?;
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

/// What is planted, in which setting, and what its checker says then.
#[derive(Clone, Copy, Debug)]
pub struct Caught {
    pub what: &'static str,
    pub planted: Planted,
    pub setting: Setting,
    pub says: &'static str,
}

/// A bug for each checker, or more.
pub const CAUGHT: [Caught; 13] = {
    const fn bug(what: &'static str, planted: Planted, setting: Setting, says: &'static str) -> Caught {
        Caught { what, planted, setting, says }
    }
    const fn core(what: &'static str, planted: Bug, setting: Setting, says: &'static str) -> Caught {
        bug(what, Planted::Core(planted), setting, says)
    }
    [
        core("a credit leak", Bug::CreditLeak, Setting::Mixed, "credits: "),
        core("a credit made up", Bug::CreditMadeUp, Setting::Mixed, "credits: "),
        core("a duplicate delivered after wrap-around", Bug::DuplicateAfterWrap, Setting::Wraps, "delivered twice"),
        core("a lost reject", Bug::LostReject, Setting::NoRoom, "liveness: "),
        core("a sender that waits for company for ever", Bug::WaitsForCompany, Setting::Mixed, "liveness: "),
        bug("a frame freed while the NIC has it", Planted::FreedEarly, Setting::LateCompletions, "frames: "),
        core("an acknowledgement for the wrong incarnation", Bug::OtherIncarnation, Setting::Restarts, "kept: "),
        bug("a switch that stores too much", Planted::Overfilled, Setting::SmallSwitch, "memory: "),
        core("a message handled before an earlier one", Bug::OutOfOrder, Setting::Mixed, "order: "),
        core("a close that says too little", Bug::CloseForgets, Setting::Mixed, "as not delivered"),
        core("flows of the dead", Bug::DeadStay, Setting::Mixed, "endings: "),
        core("a cut frame that is delivered", Bug::LengthIgnored, Setting::Drivers, "is not what was sent"),
        bug("damage that nobody notices", Planted::Nothing, Setting::Damaged, "is not what was sent"),
    ]
};

/// The seeds that a bug is given to show itself to its checker.
const SEEDS: u64 = 2000;

/// The first run of which a checker says that, and all that it prints.
pub fn caught(planted: Planted, setting: Setting, says: &str) -> Option<(Case, String)> {
    let cases = (0..SEEDS).map(|seed| Case { seed, setting, planted });
    let found = cases.filter_map(|case| Some((case, case.run().err()?))).find(|(_, why)| why.contains(says));
    plant(None);
    found
}
