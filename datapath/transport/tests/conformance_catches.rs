//! The checks of the suite work: each of these transports has one bug, and the check for it fails.

use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

use allocation_counter::measure;
use am_ring::{Frame, Own};
use am_transport::conformance::{self, CheckResult, Pair};
use am_transport::loopback::{self, Loopback};
use am_transport::{Caps, Command, PeerAddressError, Transport};
use am_wire::{Address, Buffer, Flow};

/// The bug of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    IsEverybody,
    PromisesTooLongFrames,
    HasNoCounters,
    FlipsABit,
    CutsTheEnd,
    Reorders,
    Loses,
    Doubles,
    IsOneWay,
    HearsItself,
    OpensEveryFlow,
    IgnoresAddedAddresses,
    JudgesTheirFlows,
    NeverRemovesAddresses,
    AddsAddressesWithoutLimit,
    NeverWakes,
    WakesAllTheTime,
    IgnoresSteering,
    SeesOthers,
    RepairsGarbage,
    ExceedsTheBudget,
    Miscounts,
    GivesFromNowhere,
    LosesWhenFull,
    KeepsWhenFull,
    KeepsWhatItSent,
    StopsWhenFramesAreKept,
    Leaks,
    Allocates,
}

const FAR: Address = Address([2, 0, 0, 0, 0, 2]);

/// A good transport with a bug.
struct Broken {
    inner: Loopback,
    caps: Caps,
    bug: Bug,
    /// A byte here wakes this end. The other end writes it.
    bell: UnixDatagram,
    sent: u64,
    received: usize,
    /// Frames that were received, and not handed over yet.
    got: Vec<Frame>,
    /// Frames that it should have given back.
    kept: Vec<Frame>,
}

impl Broken {
    fn new(inner: Loopback, bell: UnixDatagram, bug: Bug) -> Broken {
        let mut caps = inner.caps().clone();
        bell.set_nonblocking(true).unwrap();
        caps.wake = Some(vec![Arc::new(Own::new(bell.try_clone().unwrap().into()))]);
        match bug {
            Bug::IsEverybody => caps.address = Address::BROADCAST,
            Bug::PromisesTooLongFrames => caps.max_frame = 9000,
            // It is always readable.
            Bug::WakesAllTheTime => caps.wake = Some(vec![Arc::new(Own::new(File::open("/dev/null").unwrap().into()))]),
            _ => (),
        }
        Broken { inner, caps, bug, bell, sent: 0, received: 0, got: Vec::with_capacity(8192), kept: vec![] }
    }

    /// A frame like this one, changed.
    fn changed(&self, frame: &Frame, change: impl FnOnce(&mut [u8])) -> Frame {
        let mut copy = self.caps.pool.copy(frame.bytes()).unwrap();
        change(&mut copy.space().unwrap()[..frame.bytes().len()]);
        copy
    }

    /// Apply the bug to a frame before it is sent.
    fn spoil(&mut self, to: Address, mut frame: Frame) -> Option<Frame> {
        let (nth, length) = (self.sent % 37 == 1, frame.bytes().len());
        match self.bug {
            Bug::Loses if nth => return None,
            Bug::IsOneWay if to != FAR => return None,
            Bug::Doubles if nth => _ = self.inner.send(to, &frame),
            Bug::FlipsABit if nth => frame = self.changed(&frame, |bytes| bytes[50] ^= 8),
            Bug::CutsTheEnd if length == 1000 => frame.set_len(999),
            // Only the flow that the checks open later is admitted.
            Bug::JudgesTheirFlows if frame.bytes()[16..18] == [0, 99] => return None,
            Bug::SeesOthers => frame = self.changed(&frame, |bytes| bytes[..6].copy_from_slice(&FAR.0)),
            Bug::RepairsGarbage => frame = self.changed(&frame, |bytes| bytes[13] |= 2),
            Bug::HearsItself if to.is_group() => self.got.push(frame.share()),
            Bug::KeepsWhatItSent => self.kept.push(frame.share()),
            Bug::Leaks if nth => std::mem::forget(frame.share()),
            Bug::Allocates => self.kept = Vec::with_capacity(1),
            _ => (),
        }
        Some(frame)
    }
}

impl Transport for Broken {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let budget = budget.saturating_add((self.bug == Bug::ExceedsTheBudget) as usize);
        let got = &mut self.got;
        let taken = self.inner.receive(budget, &mut |frame| got.push(frame));
        self.received += taken;
        match self.bug {
            Bug::Reorders => got.reverse(),
            Bug::GivesFromNowhere => got.extend(self.caps.pool.copy(b"boo")),
            Bug::StopsWhenFramesAreKept if self.received > 1200 => got.clear(),
            _ => (),
        }
        got.drain(..).for_each(each);
        taken + (self.bug == Bug::Miscounts) as usize
    }

    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        self.sent += 1;
        let Some(spoiled) = self.spoil(to, frame.share()) else { return true };
        let to = if self.bug == Bug::SeesOthers { FAR } else { to };
        let sent = self.inner.send(to, &spoiled);
        if !sent && self.bug == Bug::KeepsWhenFull {
            self.kept.push(spoiled);
        }
        sent || self.bug == Bug::LosesWhenFull
    }

    fn flush(&mut self) {
        self.inner.flush();
        // A full socket holds a byte that wakes the other end.
        if self.bug != Bug::NeverWakes {
            _ = self.bell.send(&[1]);
        }
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        let open = |id| Command::Steer { flow: Flow::new(id).unwrap(), open: true };
        match (command, self.bug) {
            (Command::BeforeSleep, _) => {
                while self.bell.recv(&mut [0]).is_ok() {}
                Ok(())
            }
            (Command::Steer { .. }, Bug::IgnoresSteering) => Ok(()),
            (Command::AddAddress(_), Bug::IgnoresAddedAddresses) => Ok(()),
            (Command::RemoveAddress(_), Bug::NeverRemovesAddresses) => Ok(()),
            (Command::AddAddress(_), Bug::AddsAddressesWithoutLimit) => self.inner.control(command).or(Ok(())),
            (Command::Steer { .. }, Bug::OpensEveryFlow) => (1..200).try_for_each(|id| self.inner.control(open(id))),
            _ => self.inner.control(command),
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        if self.bug != Bug::HasNoCounters {
            self.inner.counters(each);
        }
    }
}

fn check(name: &str, bug: Bug) -> Result<CheckResult, conformance::CheckFailure> {
    let [near, far] = loopback::pair().map(|plug| plug.open().unwrap());
    let (bell, other_bell) = UnixDatagram::pair().unwrap();
    let pair = Pair::new(Broken::new(near, bell, bug), Broken::new(far, other_bell, bug));
    conformance::check(name, pair, |run| measure(run).count_total)
}

/// Assert that a check passes without a bug, and fails with each of these.
fn catches(name: &str, bugs: &[Bug]) {
    assert_eq!(check(name, Bug::None), Ok(CheckResult::Passed), "{name}");
    for bug in bugs {
        let failure = check(name, *bug).expect_err(&format!("{name} does not see that a transport {bug:?}"));
        println!("{name}: {bug:?}: {failure}");
    }
}

macro_rules! catches {
    ($($name:ident: $($bug:ident),+;)*) => {
        $(#[test] fn $name() { catches(stringify!($name), &[$(Bug::$bug),+]); })*
        const CAUGHT: &[&str] = &[$(stringify!($name)),*];
    };
}

catches! {
    caps_are_sane: IsEverybody, PromisesTooLongFrames;
    counters_have_names_and_grow: HasNoCounters;
    frames_of_every_size_arrive_intact: FlipsABit, CutsTheEnd;
    frames_arrive_in_order: Reorders;
    nothing_is_lost_or_doubled: Loses, Doubles;
    both_ends_send_at_once: IsOneWay;
    broadcast_reaches_the_other_end_only: HearsItself;
    unknown_flows_are_dropped_and_counted: OpensEveryFlow, HasNoCounters;
    steering_follows_the_flows: IgnoresSteering, OpensEveryFlow;
    frames_for_others_are_not_seen: SeesOthers;
    garbage_is_dropped_and_counted_by_reason: RepairsGarbage, HasNoCounters;
    an_added_address_is_served_until_it_is_removed: IgnoresAddedAddresses, JudgesTheirFlows, NeverRemovesAddresses;
    added_addresses_are_bounded: AddsAddressesWithoutLimit, NeverRemovesAddresses;
    a_frame_wakes_a_sleeper: NeverWakes, WakesAllTheTime;
    receive_honours_its_budget: ExceedsTheBudget, Miscounts;
    an_idle_link_gives_nothing: GivesFromNowhere;
    a_full_transport_leaves_the_frame_alone: LosesWhenFull, KeepsWhenFull;
    a_shared_frame_can_be_sent_and_comes_back: KeepsWhatItSent;
    frames_that_are_kept_do_not_stop_it: StopsWhenFramesAreKept;
    frames_outlive_their_transport: FlipsABit;
    every_frame_comes_home: Leaks;
    nothing_is_allocated_after_open: Allocates;
}

/// Every check has a transport that fails it.
#[test]
fn every_check_catches_something() {
    assert!(conformance::names().eq(CAUGHT.iter().copied()));
    assert!(check("no_such_check", Bug::None).is_err());
}
