//! am-bench over veth pairs, and what it leaves when it is killed. Needs root.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::common::{
    ENDLESS, Machines, QUICK, Running, am_bench, check_latency, check_throughput, eventually, is_alive, json, run,
    seconds_worked, start, summary, text,
};
use am_netns::VethOptions;
use nix::sys::signal::Signal;

const VETH: &[&str] = &["--hosts", "veth"];

#[test]
fn latency_by_every_driver() {
    let lines = json(&run(&[&["latency", "--json"], VETH, QUICK]));
    check_latency(&lines[0], "am", "veth copy", "bare", 16);
    check_latency(&lines[1], "raw", "veth copy", "none", 16);
    check_latency(&lines[2], "udp", "veth kernel", "none", 16);
    let xdp: Vec<Option<&str>> = lines[..3].iter().map(|line| line["xdp"].as_str()).collect();
    assert_eq!(xdp, [Some("generic"), Some("generic"), None], "on a veth of one queue, unless said");
    for ratio in ["am_over_raw", "am_over_udp", "udp_over_am"] {
        assert!(summary(&lines)[ratio].as_f64().expect(ratio) > 0.0);
    }
}

#[test]
fn without_descriptors_for_a_host_the_limit_is_named() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 8 && exec \"$0\" latency --hosts veth"]).arg(am_bench().get_program());
    let output = shell.output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(3) && said.contains("`ulimit -n`"), "{said}");
}

#[test]
fn bandwidth_is_of_the_fullest_frames_that_all_vias_have() {
    for (options, drivers, size) in [
        (&[][..], &["am", "raw", "udp"][..], 1472),
        (&["--driver", "am,raw"], &["am", "raw"], 1500),
        (&["--driver", "am,raw", "--framing", "split"], &["am", "raw"], 1492),
        (&["--framing", "plain", "--mtu", "3000"], &["am", "raw", "udp"], 2972),
        (&["--mtu", "9000"], &["am", "raw", "udp"], 8972),
        (&["--mtu", "65000"], &["am", "raw", "udp"], 64_972),
    ] {
        let lines = json(&run(&[&["bandwidth", "--json"], options, VETH, QUICK]));
        for (line, driver) in lines.iter().zip(drivers) {
            check_throughput(line, "bandwidth", driver, size);
            assert_eq!(line["batching"], "bursts", "{line}");
        }
        assert_eq!(summary(&lines)["am_over_udp"].is_f64(), drivers.contains(&"udp"));
        assert!(summary(&lines)["am_over_raw"].is_f64());
    }
}
#[test]
fn the_xdp_program_runs_where_it_is_told_to() {
    for (at, words) in [("native", "XDP ran in the driver"), ("generic", "XDP ran in the kernel's generic")] {
        let lines = json(&run(&[&["latency", "--driver", "am,raw", "--xdp", at, "--json"], VETH, QUICK]));
        for (line, (driver, framing)) in lines.iter().zip([("am", "bare"), ("raw", "none")]) {
            check_latency(line, driver, "veth copy", framing, 16);
            assert_eq!(line["xdp"], at, "{line}");
        }
        let table = text(&run(&[&["latency", "--driver", "am", "--xdp", at], VETH, QUICK]).stdout);
        assert_eq!(table.matches(words).count(), 1, "{table}");
    }
}
/// A session that is measuring, and its far side.
fn measuring(driver: &str) -> (Running, u32) {
    let near = start(&[&["latency", "--driver", driver], VETH, ENDLESS]);
    let mut far = None;
    eventually("a far side that works", || {
        far = near.children().into_iter().find(|&pid| seconds_worked(pid) > 0.5 && seconds_worked(near.pid()) > 0.5);
        far.is_some()
    });
    (near, far.unwrap())
}

/// The network namespace of a process.
fn namespace(pid: u32) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/ns/net")).expect("a process of ours")
}

/// Whether no process and no thread is in it.
fn is_deserted(namespace: &PathBuf) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let tasks = processes.filter_map(|process| fs::read_dir(process.path().join("task")).ok()).flatten().flatten();
    !tasks.into_iter().any(|task| fs::read_link(task.path().join("ns/net")).is_ok_and(|other| other == *namespace))
}

#[test]
fn when_a_side_is_killed_the_other_ends_and_nothing_is_left() {
    for (driver, is_near) in ["am", "raw", "udp"].into_iter().flat_map(|driver| [(driver, true), (driver, false)]) {
        let (near, far) = measuring(driver);
        let namespace = namespace(far);
        let killed = if is_near { near.pid() } else { far };
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(killed as i32), Signal::SIGKILL).unwrap();
        let (status, errors) = near.end();
        if !is_near {
            assert_eq!(status.code(), Some(1), "{errors}");
            assert!(errors.contains("the other side's process has ended"), "{errors}");
        }
        eventually("the end of the far side", || !is_alive(far));
        eventually("an empty namespace", || is_deserted(&namespace));
    }
    json(&run(&[&["latency", "--json", "--driver", "am"], VETH, QUICK]));
}

#[test]
fn ctrl_c_ends_both_sides() {
    let (near, far) = measuring("am");
    let namespace = namespace(far);
    near.signal(Signal::SIGINT);
    let (status, errors) = near.end();
    assert_eq!((status.code(), errors.as_str()), (Some(130), "am-bench: interrupted\n"));
    assert!(!is_alive(far));
    assert!(is_deserted(&namespace));
}

#[test]
fn two_machines_that_share_a_wire() {
    let machines = Machines::new();
    let _far = machines.start(1, &[&["--serve"]]);
    for bench in ["latency", "rate"] {
        let lines = json(&machines.measure(&[&[bench, "--peer", "beta", "--json"], QUICK]));
        let drivers: Vec<&str> = lines.iter().filter_map(|line| line["via"].as_str()).collect();
        assert_eq!(drivers, ["am", "raw", "udp"]);
        assert!(summary(&lines)["am_over_raw"].is_f64());
    }
    assert!(!machines.ends[0].has_xdp().unwrap(), "no program is left on the near side");
    let output = machines.measure(&[&["latency", "--peer", "beta", "--driver", "udp", "--json"], QUICK]);
    let cores = &json(&output)[0]["cores"];
    assert!(cores[0] != cores[1] || cores[0].is_null(), "both spin: {cores}");
}

/// Without IP addresses there are no rows of kernel sockets.
#[test]
fn the_ablation_between_two_machines() {
    let machines = Machines::with(&VethOptions::default());
    let _far = machines.start(1, &[&["--serve"]]);
    let output = machines.measure(&[&["ablation", "--peer", "beta", "--json", "--rounds", "1", "--time", "0.005"]]);
    let rows: Vec<String> = json(&output).iter().filter_map(|line| Some(line["row"].as_str()?.to_owned())).collect();
    assert_eq!(rows, ["baseline", "streamed", "all_dma", "hybrid", "buffers", "interpreted", "whole"]);
    assert!(text(&output.stderr).contains("without udp: "), "{}", text(&output.stderr));
}

/// As `ip` shows it on the far side: `xdpgeneric` while it listens.
#[test]
fn the_far_side_attaches_as_the_near_side_was_told() {
    let machines = Machines::new();
    let shown = || {
        let command = || Command::new("ip").args(["link", "show", "eth1"]).output().unwrap();
        text(&machines.hosts[1].enter(command).unwrap().stdout)
    };
    let _far = machines.start(1, &[&["--serve"]]);
    eventually("a server", || shown().contains(" xdpgeneric "));
    for driver in ["am", "raw"] {
        let near = machines.start(0, &[&["latency", "--peer", "beta", "--xdp", "native", "--driver", driver], ENDLESS]);
        eventually("work", || seconds_worked(near.pid()) > 0.5);
        assert!(shown().contains(" xdp "), "by {driver}: {}", shown());
        near.signal(Signal::SIGINT);
        near.end();
        eventually("a server again", || shown().contains(" xdpgeneric "));
    }
}

#[test]
fn a_wire_without_ip_addresses() {
    let machines = Machines::with(&VethOptions::default());
    let _far = machines.start(1, &[&["--serve"]]);
    let output = machines.measure(&[&["latency", "--peer", "beta", "--json"], QUICK]);
    let drivers: Vec<String> = json(&output).iter().filter_map(|line| Some(line["via"].as_str()?.to_owned())).collect();
    assert_eq!(drivers, ["am", "raw"]);
    assert!(text(&output.stderr).contains("without udp: the two interfaces have no IP addresses"));

    let output = machines.measure(&[&["latency", "--peer", "beta", "--driver", "udp"], QUICK]);
    assert_eq!(output.status.code(), Some(3), "asked for by name, it is missed");
}

/// As just after the link came up: the kernel checks for 100 s whether another host has the address.
#[test]
fn an_address_that_the_far_side_cannot_use_yet() {
    let machines = Machines::with(&VethOptions::default());
    for (host, script) in [
        (0, "ip address add fe80::1/64 dev eth1 nodad"),
        (1, "echo 100 >/proc/sys/net/ipv6/conf/eth1/dad_transmits; ip address add fe80::2/64 dev eth1"),
    ] {
        let script = format!("echo 0 >/proc/sys/net/ipv6/conf/eth1/disable_ipv6; {script}");
        let command = || Command::new("sh").args(["-ec", &script]).output().unwrap();
        let output = machines.hosts[host].enter(command).unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let _far = machines.start(1, &[&["--serve"]]);
    let output = machines.measure(&[&["latency", "--peer", "beta", "--json"], QUICK]);
    assert_eq!(json(&output).len(), 3, "am, raw and the summary");
    let errors = text(&output.stderr);
    let without: Vec<&str> = errors.lines().filter(|line| line.contains("without udp: ")).collect();
    assert!(without.len() == 1 && without[0].contains("(beta: fe80::2: Cannot assign"), "{errors}");
}
/// A process that spins is never seen asleep. One that opens an interface may be, but not for so long.
#[test]
fn a_server_sleeps_until_somebody_comes() {
    let machines = Machines::new();
    let far = machines.start(1, &[&["serve"]]);
    json(&machines.measure(&[&["latency", "--peer", "beta", "--json"], QUICK]));
    let mut asleep = 0;
    eventually("a server that sleeps", || {
        asleep = if is_asleep(far.pid()) { asleep + 1 } else { 0 };
        asleep == 50
    });
    json(&machines.measure(&[&["latency", "--peer", "beta", "--json"], QUICK]));
}

fn is_asleep(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('S'))
}

/// The far side is told that the near side leaves, and does not wait for a time-out.
#[test]
fn a_server_is_there_at_once_for_the_next_when_one_gives_up() {
    let machines = Machines::new();
    let far = machines.start(1, &[&["serve"]]);
    let next = |driver| json(&machines.measure(&[&["latency", "--peer", "beta", "--json", "--driver", driver], QUICK]));
    // It does not fit udp, which comes last.
    let output = machines.measure(&[&["latency", "--peer", "beta", "--size", "16,1500"], QUICK]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{}", text(&output.stderr));
    for driver in ["am", "raw", "udp"] {
        let output = machines.measure(&[&["latency", "--peer", "beta", "--driver", driver, "--size", "2000"], QUICK]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        next(driver);
        let near = machines.start(0, &[&["latency", "--peer", "beta", "--driver", driver], ENDLESS]);
        eventually("work", || seconds_worked(near.pid()) > 0.5);
        near.signal(Signal::SIGINT);
        assert_eq!(near.end().0.code(), Some(130));
        next(driver);
    }
    far.signal(Signal::SIGTERM);
    let (_, errors) = far.end();
    assert!(errors.contains("left before the end") && !errors.contains("lost"), "{errors}");
}

#[test]
fn a_server_that_is_killed_is_missed() {
    let machines = Machines::new();
    let far = machines.start(1, &[&["serve"]]);
    let near = machines.start(0, &[&["latency", "--peer", "beta", "--driver", "am"], ENDLESS]);
    eventually("work", || seconds_worked(near.pid()) > 0.5);
    far.signal(Signal::SIGKILL);
    far.end();
    assert!(!machines.ends[1].has_xdp().unwrap());
    let (status, errors) = near.end();
    assert_eq!(status.code(), Some(1), "{errors}");
    assert!(errors.contains("lost") || errors.contains("ended"), "{errors}");
}

/// The own interface goes down while a side asks for the far side, and while it measures by each driver.
#[test]
fn the_own_interface_is_named_before_the_far_side() {
    for measured in [None, Some("am"), Some("raw")] {
        let machines = Machines::new();
        let far = measured.map(|_| machines.start(1, &[&["serve"]]));
        let peer = if measured.is_some() { "beta" } else { "gamma" };
        let driver = measured.unwrap_or("am");
        let near = machines.start(0, &[&["latency", "--peer", peer, "--driver", driver], ENDLESS]);
        let least = if measured.is_some() { 0.5 } else { 0.0 };
        eventually("work", || seconds_worked(near.pid()) > least);
        machines.ends[0].set_down().unwrap();
        let (status, errors) = near.end();
        assert_eq!(status.code(), Some(1), "{driver}: {errors}");
        let [own, far_side] = ["eth1 is down", "\n  and "].map(|words| errors.find(words));
        assert!(own.is_some() && own < far_side, "{driver}: {errors}");
        drop(far);
    }
}
#[test]
fn what_is_missing_is_named() {
    let machines = Machines::new();
    let serve = |on: &str| {
        let output = machines.hosts[1].enter(|| run(&[&["serve", "--on", on]])).unwrap();
        assert_eq!(output.status.code(), Some(3));
        text(&output.stderr)
    };
    assert!(serve("xdp:eth7").contains("no interface eth7 here; there are: lo, eth1"));
    machines.ends[1].set_down().unwrap();
    assert!(serve("xdp:eth1").contains("`ip link set dev eth1 up`"));
}

/// As a user without rights. The program is copied to a place where such a user may run it.
fn as_nobody(arguments: &[&[&str]]) -> std::process::Output {
    const NOBODY: u32 = 65534;
    let directory = std::env::temp_dir().join(format!("am-bench-test-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let program = directory.join("am-bench");
    // By another process: a child of another thread must not have it open to write.
    assert!(std::process::Command::new("cp").arg(am_bench().get_program()).arg(&program).status().unwrap().success());
    for path in [&directory, &program] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let start =
        || Command::new(&program).args(arguments.concat()).stdin(Stdio::null()).uid(NOBODY).gid(NOBODY).output();
    let mut output = start();
    // A child of another test may have the file open until it runs its own program.
    eventually("a program that may be run", || {
        let busy = output.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ExecutableFileBusy);
        if busy {
            output = start();
        }
        !busy
    });
    let output = output.unwrap();
    fs::remove_dir_all(&directory).unwrap();
    output
}

#[test]
fn without_rights() {
    let output = as_nobody(&[&["latency"], VETH, QUICK]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(errors.contains("missing CAP_SYS_ADMIN to make") && errors.contains("run as root:  "), "{errors}");

    let server = as_nobody(&[&["serve", "--on", "xdp:eth1"]]);
    let errors = text(&server.stderr);
    assert_eq!(server.status.code(), Some(3), "{errors}");
    assert!(errors.contains("missing CAP_NET_ADMIN to attach") && errors.contains("sudo setcap cap_"), "{errors}");

    let ablation = as_nobody(&[&["ablation"], QUICK]);
    let errors = text(&ablation.stderr);
    assert_eq!(ablation.status.code(), Some(3), "{errors}");
    assert!(errors.contains("missing CAP_SYS_ADMIN to make") && errors.contains("run as root:  "), "{errors}");

    let demo = as_nobody(&[&["demo", "--rounds", "1", "--time", "0.02"]]);
    let shown = text(&demo.stdout);
    assert!(demo.status.success(), "{}", text(&demo.stderr));
    assert!(shown.contains("That is not possible here.\nnot permitted") && shown.contains("memory"), "{shown}");
}

#[test]
fn the_demonstration() {
    let output = run(&[&["demo", "--rounds", "1", "--time", "0.02"]]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for part in ["one Ethernet cable", "latency: ", "bandwidth: ", "udp     veth kernel", "times as long as"] {
        assert!(shown.contains(part), "no `{part}` in\n{shown}");
    }
}
