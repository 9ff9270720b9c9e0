//! Each thing that can be in the way, put there. Needs root.

use std::thread;

use crate::pair::{Cable, eventually};
use am_afxdp::{Attach, Copying, HugePages, MAX_SINGLE_CHUNK_MTU, Rings, XdpOpenError, XdpOptions};
use am_bpf::{AttachError, AttachMode, Raw};
use am_netns::VethOptions;
use caps::{CapSet, Capability};

/// The error, and that nothing of the attempt is left: the queue opens once the
/// obstacle is gone.
fn refused(cable: &Cable, options: &XdpOptions) -> XdpOpenError {
    let error = cable.open(0, options).map(|_| ()).unwrap_err();
    assert!(!error.to_string().contains('\n'), "one line: {error}");
    error
}

fn opens(cable: &Cable) {
    drop(cable.opens(0, &XdpOptions::new("am0")));
}

#[track_caller]
fn says(error: &XdpOpenError, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

#[test]
fn no_such_interface() {
    let cable = Cable::new(&VethOptions::default());
    let error = refused(&cable, &XdpOptions::new("eth77"));
    assert!(matches!(&error, XdpOpenError::NoSuchInterface { interface, .. } if interface == "eth77"));
    says(&error, &["no interface eth77 here", "there are: lo, am0"]);
}

#[test]
fn no_ethernet() {
    let cable = Cable::new(&VethOptions::default());
    assert!(matches!(refused(&cable, &XdpOptions::new("lo")), XdpOpenError::NotEthernet { .. }));
}

#[test]
fn interface_down() {
    let cable = Cable::new(&VethOptions::default());
    cable.ends[0].set_down().unwrap();
    let error = refused(&cable, &XdpOptions::new("am0"));
    assert!(matches!(error, XdpOpenError::Down { .. }));
    says(&error, &["`ip link set dev am0 up`"]);
    cable.ends[0].set_up().unwrap();
    opens(&cable);
}

/// As it is in a namespace of `ip netns add`.
#[test]
fn the_loopback_interface_need_not_be_up() {
    let cable = Cable::new(&VethOptions::default());
    cable.hosts[0].interface("lo").unwrap().set_down().unwrap();
    opens(&cable);
}

#[test]
fn no_such_queue() {
    let cable = Cable::new(&VethOptions { queues: 2, ..VethOptions::default() });
    let mut options = XdpOptions::new("am0");
    options.queue = 2;
    let error = refused(&cable, &options);
    assert!(matches!(error, XdpOpenError::NoSuchQueue { queue: 2, have: 2, .. }));
    says(&error, &["queues 0 to 1", "ethtool -L am0"]);
    options.queue = 1;
    cable.open(0, &options).unwrap();
}

#[test]
fn the_largest_mtu_of_one_chunk_a_frame_works() {
    let cable = Cable::new(&VethOptions { mtu: MAX_SINGLE_CHUNK_MTU, ..VethOptions::default() });
    let mut pair = cable.pair(&XdpOptions::new("am0"));
    assert!(!pair.near.mode().multi_buffer);
    pair.assert_alive(1);
}

#[test]
fn already_bound() {
    let cable = Cable::new(&VethOptions::default());
    let first = cable.open(0, &XdpOptions::new("am0")).unwrap();
    let error = refused(&cable, &XdpOptions::new("am0"));
    assert!(matches!(error, XdpOpenError::Busy { queue: 0, .. }));
    says(&error, &["queue 0 of am0 is in use", &format!("{} (", std::process::id())]);
    drop(first);
    opens(&cable);
}

#[test]
fn another_program_is_attached() {
    let cable = Cable::new(&VethOptions::default());
    let other = cable.hosts[0].enter(|| Raw::load(0x1234).unwrap().attach("am0", AttachMode::Native).unwrap()).unwrap();
    let error = refused(&cable, &XdpOptions::new("am0"));
    assert!(matches!(error, XdpOpenError::Attach(AttachError::Occupied { .. })), "{error}");
    says(&error, &["ip link show dev am0"]);
    drop(other);
    opens(&cable);
}

#[test]
fn no_more_nodes_than_an_interface_takes() {
    let cable = Cable::new(&VethOptions { queues: 17, ..VethOptions::default() });
    let few = XdpOptions { frames: 16, ..XdpOptions::new("am0") };
    let rings = Rings { rx: 8, tx: 8, fill: 8, completion: 8 };
    let options = |queue| XdpOptions { queue, rings, ..few.clone() };
    let nodes: Vec<_> = (0..16).map(|queue| cable.open(0, &options(queue)).unwrap()).collect();
    let error = refused(&cable, &options(16));
    assert!(matches!(error, XdpOpenError::TooManyNodes { .. }), "{error}");
    says(&error, &["16 nodes on am0", "on another interface"]);
    drop(nodes);
    // Children that other tests start hold the program a moment longer.
    eventually("there is room", || cable.open(0, &options(16)).is_ok());
}

/// Without some capabilities; they come back with the thread's end.
fn without(lost: &[Capability], options: &XdpOptions) -> XdpOpenError {
    let cable = Cable::new(&VethOptions::default());
    thread::scope(|scope| {
        let attempt = scope.spawn(|| {
            nix::sched::setns(&cable.hosts[0], nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            lost.iter().for_each(|&right| caps::drop(None, CapSet::Effective, right).unwrap());
            am_afxdp::open(options).map(|_| ()).unwrap_err()
        });
        attempt.join().unwrap()
    })
}

#[test]
fn missing_capabilities() {
    let options = XdpOptions::new("am0");
    let error = without(&[Capability::CAP_NET_RAW], &options);
    assert!(matches!(error, XdpOpenError::Rights(_)));
    says(
        &error,
        &["missing CAP_NET_RAW to make an AF_XDP socket: ", "setcap cap_bpf,cap_net_admin,cap_net_raw,cap_ipc_lock"],
    );
    let error = without(&[Capability::CAP_NET_ADMIN, Capability::CAP_BPF, Capability::CAP_SYS_ADMIN], &options);
    says(&error, &["missing CAP_NET_ADMIN to attach an XDP program, CAP_BPF to load the XDP program: "]);
}

/// Three capabilities are enough, and a few frames need no locked memory to speak of.
#[test]
fn the_named_capabilities_suffice() {
    let cable = Cable::new(&VethOptions::default());
    let needed = [Capability::CAP_NET_RAW, Capability::CAP_NET_ADMIN, Capability::CAP_BPF];
    let mut options = XdpOptions::new("am0");
    (options.frames, options.rings.fill) = (16, 8);
    thread::scope(|scope| {
        let attempt = scope.spawn(|| {
            nix::sched::setns(&cable.hosts[0], nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            caps::set(None, CapSet::Effective, &needed.into_iter().collect()).unwrap();
            am_afxdp::open(&options).map(|_| ())
        });
        attempt.join().unwrap().unwrap_or_else(|error| panic!("{error}"));
    });
}

#[test]
fn too_little_locked_memory() {
    let mut options = XdpOptions::new("am0");
    options.huge_pages = HugePages::Never;
    let limit = limit_locked_memory(64 << 10);
    let error = without(&[Capability::CAP_IPC_LOCK], &options);
    limit_locked_memory(limit);
    assert!(matches!(error, XdpOpenError::LockedMemory { bytes: 16_777_216 }), "{error}");
    says(
        &error,
        &["`sudo prlimit --pid $$ --memlock=unlimited`", "cap_ipc_lock", "LimitMEMLOCK=infinity", "`frames=4096`"],
    );
}

/// Set the soft limit, for all threads; returns what it was. Threads with
/// CAP_IPC_LOCK do not notice.
fn limit_locked_memory(bytes: libc::rlim_t) -> libc::rlim_t {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get a pointer to a structure that outlives them.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit), 0);
        let before = std::mem::replace(&mut limit.rlim_cur, bytes);
        assert_eq!(libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit), 0);
        before
    }
}

#[test]
fn zero_copy_asked_of_a_veth() {
    let cable = Cable::new(&VethOptions::default());
    let mut options = XdpOptions::new("am0");
    options.copy = Copying::ZeroCopy;
    let error = refused(&cable, &options);
    assert!(matches!(&error, XdpOpenError::NoZeroCopy { driver, .. } if driver == "veth"));
    says(&error, &["driver veth of am0 does not do zero-copy"]);
    opens(&cable);
}

#[test]
fn copy_asked_for_is_no_refusal() {
    let cable = Cable::new(&VethOptions::default());
    let mut options = XdpOptions::new("am0");
    (options.copy, options.huge_pages) = (Copying::Copy, HugePages::Never);
    assert!(cable.open(0, &options).unwrap().mode().notes.is_empty());
}

#[test]
fn more_huge_pages_than_there_are() {
    let cable = Cable::new(&VethOptions::default());
    let mut options = XdpOptions::new("am0");
    (options.frames, options.huge_pages) = (1 << 30, HugePages::Required);
    let error = refused(&cable, &options);
    assert!(matches!(error, XdpOpenError::HugePages { .. }), "{error}");
    says(&error, &["sysctl -w vm.nr_hugepages="]);
}

#[test]
fn options_that_contradict_each_other() {
    let cable = Cable::new(&VethOptions::default());
    let mut options = XdpOptions::new("am0");
    options.rings.rx = 1000;
    says(&refused(&cable, &options), &["rx ring of 1000 entries", "power of two"]);
}

#[test]
fn the_program_runs_where_it_was_asked_to() {
    let cable = Cable::new(&VethOptions::default());
    let mut options = XdpOptions::new("am0");
    for (attach, where_) in [
        (Attach::Auto, AttachMode::Generic),
        (Attach::Native, AttachMode::Native),
        (Attach::Generic, AttachMode::Generic),
    ] {
        options.attach = attach;
        let mut pair = cable.pair(&options);
        assert_eq!(pair.near.mode().attach, where_, "{attach:?}");
        pair.assert_alive(1);
    }
    let two = Cable::new(&VethOptions { queues: 2, ..VethOptions::default() });
    let mode = two.open(0, &XdpOptions::new("am0")).unwrap().mode().attach;
    assert_eq!(mode, AttachMode::Native, "the generic path knows one queue");
}
