//! The suite that every transport passes, between two programs of a daemon that judges nothing.

use allocation_counter::measure;
use am_ring::Frame;
use am_transport::conformance::{self, CheckResult, Pair};
use am_transport::{Caps, Command, Notice, PeerAddressError, Transport};
use am_vnic::{Vnic, VnicOptions};
use am_wire::Address;

use crate::repeater::Repeater;

/// Lets the daemon's thread run after each doorbell, on a machine with few processors.
struct Yielding(Vnic);

impl Transport for Yielding {
    fn caps(&self) -> &Caps {
        self.0.caps()
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        self.0.receive(budget, each)
    }

    fn send(&mut self, to: Address, frame: &Frame) -> bool {
        self.0.send(to, frame)
    }

    fn flush(&mut self) {
        self.0.flush();
        std::thread::yield_now();
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        self.0.control(command)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.0.poll_notices(each);
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.0.counters(each);
    }
}

fn passes(max_frame: u32, options: impl Fn(VnicOptions) -> VnicOptions) {
    let make = || {
        let repeater = Repeater::start(max_frame);
        let open = || Yielding(am_vnic::open(&options(VnicOptions::new(&repeater.path))).unwrap());
        let [near, far] = [open(), open()];
        Pair::new(near, far).keeping(repeater)
    };
    let report = conformance::run(make, |run| measure(run).count_total);
    println!("{report}");
    report.assert_passed();
    let not_promised = report.checks.iter().filter(|(_, result)| *result == Ok(CheckResult::NotPromised));
    assert_eq!(not_promised.map(|(name, _)| *name).collect::<Vec<_>>(), ["nothing_is_lost_or_doubled"]);
}

#[test]
fn amd_passes() {
    passes(1514, |options| options);
}

#[test]
fn amd_passes_with_long_frames() {
    passes(65_536, |options| VnicOptions { frames: 8192, ..options });
}

#[test]
fn amd_passes_with_shorter_frames_than_the_wire() {
    passes(9014, |options| VnicOptions { max_frame: Some(1514), ..options });
}
