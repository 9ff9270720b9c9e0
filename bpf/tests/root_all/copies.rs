//! Where the program sends copies of stamped frames, and where not. Needs root.

use am_bpf::{AttachMode, Config, CopyError, Kernel, Steer, interface_index};
use am_netns::{Bridge, BridgeOptions, Host};
use am_wire::{Address, EtherType};

const MODE: AttachMode = AttachMode::Native;

/// The answers of a loaded program about the end of a cable to a bridge, whose port has `gro` or not.
fn answers(gro: bool, ask: impl FnOnce(&mut Steer, u32) -> Vec<Result<(), CopyError>> + Send) -> Vec<Option<String>> {
    let host = Host::new("copies").unwrap();
    let bridge = Bridge::new(&[&host], "am0", &BridgeOptions { gro, ..BridgeOptions::default() }).unwrap();
    let own = Address(bridge.ends()[0].address());
    let ethertype = EtherType::DEFAULT;
    let config = Config { ethertype, own, node_socket: 0, counts_redirected: true, lost_per_million: 0 };
    let mut steer = Steer::load(&config).unwrap_or_else(|error| panic!("{error}"));
    let answers = host.enter(|| ask(&mut steer, interface_index("am0").unwrap())).unwrap();
    answers.into_iter().map(|answer| answer.err().map(|why| why.to_string())).collect()
}

#[track_caller]
fn says(answer: &Option<String>, words: &str) {
    assert!(answer.as_ref().is_some_and(|answer| answer.contains(words)), "{answer:?}");
}

/// What a kernel without copies says, whatever the driver. 5.18 stamps; 6.3 says which driver sends redirected frames.
fn reason_of_an_old_kernel() -> Option<&'static str> {
    let kernel = Kernel::running();
    let reasons =
        [(5, 18, "too old: an XDP program that stamps needs 5.18"), (6, 3, "does not say whether the driver")];
    reasons.into_iter().find(|&(major, minor, _)| kernel.is_older_than(major, minor)).map(|(.., reason)| reason)
}

#[test]
fn one_group_has_copies_where_the_driver_sends_them() {
    let all = answers(true, |steer, index| {
        let mut set = |group, copies, mode| steer.set_copies(group, copies, index, mode);
        vec![
            set(1, 3, MODE),
            set(2, 3, MODE),
            set(1, 64, MODE),
            set(1, 0, MODE),
            set(2, 3, MODE),
            set(2, 3, AttachMode::Generic),
        ]
    });
    if let Some(reason) = reason_of_an_old_kernel() {
        return all[..5].iter().for_each(|answer| says(answer, reason));
    }
    let [first, other, more, none, then, generic] = &all[..] else { panic!("{all:?}") };
    assert_eq!([first, more, none, then], [&None; 4]);
    says(other, "another group");
    says(generic, "attach=native");
}

#[test]
fn a_driver_that_sends_no_redirected_frames_is_named() {
    let answer = answers(false, |steer, index| vec![steer.set_copies(1, 3, index, MODE)]);
    says(&answer[0], reason_of_an_old_kernel().unwrap_or("gro on"));
}
