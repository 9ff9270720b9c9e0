//! A driver that has forgotten the XDP program: what detaches a program behind its owner's back does the same. Needs root.

mod pair;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread::sleep;
use std::time::Duration;

use pair::{eventually, plain};
use transport::Transport;

const LINK_GET_FD_BY_ID: libc::c_long = 30;
const LINK_GET_NEXT_ID: libc::c_long = 31;
const LINK_DETACH: libc::c_long = 34;

/// A command of bpf(2) whose arguments are numbers.
fn bpf(command: libc::c_long, attributes: &mut [u32; 32]) -> Option<i32> {
    // SAFETY: the kernel reads and writes at most as many bytes as it is told there are; these commands have no pointers.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size_of_val(attributes)) } as i32;
    (result >= 0).then_some(result)
}

/// The numbers of all attachments of this system.
fn links() -> Vec<u32> {
    let next = |last: u32| {
        let mut attributes = [0; 32];
        attributes[0] = last;
        bpf(LINK_GET_NEXT_ID, &mut attributes).map(|_| attributes[1])
    };
    std::iter::successors(next(0), |last| next(*last)).collect()
}

fn detach(link: u32) {
    let mut attributes = [0; 32];
    attributes[0] = link;
    let fd = bpf(LINK_GET_FD_BY_ID, &mut attributes).expect("root may ask for any link");
    // SAFETY: the kernel has just opened this descriptor, and no other value owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut attributes = [0; 32];
    attributes[0] = fd.as_raw_fd() as u32;
    bpf(LINK_DETACH, &mut attributes).expect("an attachment to an interface can be taken away");
}

#[test]
fn it_is_attached_again() {
    let before = links();
    let (_cable, mut pair) = plain();
    let ours = || links().into_iter().filter(|link| !before.contains(link)).collect::<Vec<_>>();
    let first = ours();
    assert_eq!(first.len(), 2, "one at each end");
    for number in 0..100 {
        pair.assert_alive(number);
    }
    sleep(Duration::from_millis(300));
    assert_eq!(pair.far.broken(), None);
    assert_eq!(ours(), first, "nothing of ours passes a program that runs");

    detach(first[1]);
    assert_eq!(pair.send(0..10), 10);
    sleep(Duration::from_millis(50));
    assert!(pair.receive().is_empty(), "they went to the kernel's stack");
    eventually("they come again", || {
        pair.send(std::iter::once(1));
        assert_eq!(pair.far.broken(), None);
        !pair.receive().is_empty()
    });
    assert_ne!(ours(), first);
}
