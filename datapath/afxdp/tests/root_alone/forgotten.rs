//! A driver that has forgotten the XDP program: what detaches a program behind its owner's back does the same. Needs root.

use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::Duration;

use crate::pair::{Pair, eventually, plain};
use am_netns::Tap;
use am_transport::{Transport, TransportExt};
use am_wire::{Address, EtherType};

const LINK_GET_FD_BY_ID: libc::c_long = 30;
const LINK_DETACH: libc::c_long = 34;

/// A command of bpf(2) whose arguments are numbers.
fn bpf(command: libc::c_long, attributes: &mut [u32; 32]) -> Option<i32> {
    // SAFETY: the kernel reads and writes at most as many bytes as it is told there are; these commands have no pointers.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size_of_val(attributes)) } as i32;
    (result >= 0).then_some(result)
}

/// The numbers of this process's attachments, the oldest first.
fn links() -> Vec<u32> {
    let open = fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    let files = open.filter_map(|file| fs::read_to_string(file.path()).ok());
    let number = |info: String| info.lines().find_map(|line| line.strip_prefix("link_id:")?.trim().parse().ok());
    let mut links: Vec<u32> = files.filter_map(number).collect();
    links.sort_unstable();
    links
}

/// One test at a time.
static LINKS: Mutex<()> = Mutex::new(());

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

/// Of our EtherType, but for the tag.
fn tagged(to: Address, id: u8) -> Vec<u8> {
    let head = [&to.0[..], &[2, 0xaa, 0, 0, 0, 1, 0x81, 0, 0, id], &EtherType::DEFAULT.hidden().to_be_bytes()].concat();
    head.into_iter().chain([0; 46]).collect()
}

/// Until messages arrive again at the far end.
fn heals(pair: &mut Pair) {
    eventually("they come again", || {
        pair.send(std::iter::once(1));
        assert_eq!(pair.far.link_error(), None);
        !pair.receive().is_empty()
    });
}

#[test]
fn it_is_attached_again() {
    let _alone = LINKS.lock();
    let (_cable, mut pair) = plain();
    let first = links();
    assert_eq!(first.len(), 2, "one at each end");
    for number in 0..100 {
        pair.assert_alive(number);
    }
    sleep(Duration::from_millis(300));
    assert_eq!(pair.far.link_error(), None);
    assert_eq!(links(), first, "nothing of ours passes a program that runs");

    detach(first[1]);
    assert_eq!(pair.send(0..10), 10);
    sleep(Duration::from_millis(50));
    assert!(pair.receive().is_empty(), "they went to the kernel's stack");
    heals(&mut pair);
    assert_ne!(links(), first);
}

#[test]
fn tagged_frames_pass_it_and_it_stays() {
    let _alone = LINKS.lock();
    let (cable, mut pair) = plain();
    let first = links();
    let wire = Tap::new(&cable.ends[0]).unwrap();
    let frames = [0, 5].map(|id| tagged(pair.far.caps().address, id));
    for _ in 0..60 {
        frames.iter().for_each(|frame| wire.send(frame).unwrap());
        sleep(Duration::from_millis(20));
        assert_eq!(pair.far.link_error(), None);
        assert_eq!(links(), first);
    }
    assert!(pair.receive().is_empty());
    detach(first[1]);
    heals(&mut pair);
}
