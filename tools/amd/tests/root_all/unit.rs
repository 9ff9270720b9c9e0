//! The systemd unit: the rights that it grants are enough, each is needed, and the daemon asks for nothing that it forbids.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::process::{Command, Stdio};

use am_netns::{Host, VethOptions, veth};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::{is_served, list, port, until};
use crate::users::{Place, Process, UNIT, as_user, granted, program, succeeds};

/// The value of a setting.
fn setting(key: &str) -> &'static str {
    UNIT.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("the unit has no {key}"))
}

/// A program of systemd, and its output.
fn analyze(arguments: &[&str]) -> String {
    let output = Command::new("systemd-analyze").args(arguments).output();
    let output = output.unwrap_or_else(|why| panic!("systemd-analyze: {why}; apt-get install systemd"));
    let all = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert!(output.status.success(), "{all}");
    all
}

#[test]
fn systemd_finds_no_fault_in_the_unit() {
    let place = Place::new();
    let amd = place.path("amd");
    let unit = place.path("amd@eth1.service");
    std::fs::write(&unit, UNIT.replace("/usr/local/bin/amd ", &format!("{} ", amd.display()))).unwrap();
    let said = analyze(&["verify", unit.to_str().unwrap()]);
    let faults: Vec<_> = said.lines().filter(|line| line.contains("amd@")).collect();
    assert_eq!(faults, [""; 0]);
    // An unknown key is a fault, so the tool does look.
    std::fs::write(&unit, UNIT.replace("NoNewPrivileges=", "NoSuchKey=")).unwrap();
    let output = Command::new("systemd-analyze").arg("verify").arg(&unit).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("NoSuchKey"), "{output:?}");
}

/// The page that says how to install and use the daemon.
const PAGE: &str = include_str!("../../../../docs/amd.md");

/// The word behind each place of `before` on the page.
fn words_behind(before: &str) -> BTreeSet<&'static str> {
    let rests = PAGE.match_indices(before).map(|(at, _)| &PAGE[at + before.len()..]);
    rests.filter_map(|rest| rest.split([' ', '\n', '`']).next()).filter(|word| word.starts_with('/')).collect()
}

#[test]
fn the_page_and_the_unit_name_the_same_paths_user_and_group() {
    let of_eth1 = |key: &str| setting(key).replace("%I", "eth1");
    let start = of_eth1("ExecStart=");
    let words: Vec<_> = start.split(' ').collect();
    let behind = |key: &str| words[words.iter().position(|word| *word == key).unwrap() + 1];
    let (program, socket) = (words[0].strip_suffix("/amd").unwrap(), behind("--socket"));
    assert!(
        PAGE.contains(&format!("sudo install target/release/amd target/release/am-bench {program}\n")),
        "{program}"
    );
    assert_eq!(words_behind("amd:"), [socket].into(), "the socket that programs name");
    assert_eq!(words_behind("--socket "), [socket].into(), "the socket of amd's commands");
    assert_eq!(format!("/run/{}/amd.sock", of_eth1("RuntimeDirectory=")), socket);
    let (user, group) = (setting("User="), setting("Group="));
    assert_eq!((user, group), (behind("--group"), behind("--group")), "`useradd --user-group` makes both");
    let line = |start: &str| PAGE.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no {start}"));
    assert!(line("sudo useradd --system --user-group ").ends_with(&format!(" {user}")));
    assert!(line("sudo usermod -aG ").starts_with(&format!("sudo usermod -aG {group} $USER")));
    assert!(line("sudo amd run ").contains(&format!("amd run {} --socket {socket} --group {group} ", words[2])));
    let environment = of_eth1("EnvironmentFile=-");
    assert!(line("echo 'AMD_ARGUMENTS=").ends_with(&format!(" {environment}")), "{environment}");
    assert!(words.last() == Some(&"$AMD_ARGUMENTS") && UNIT.contains("AMD_ARGUMENTS=--config /etc/amd/eth1.toml\n"));
    // An interface's name has another form in the name of a device's unit, if it contains a `-`.
    let escaped: Vec<_> = UNIT.lines().filter(|line| line.contains("%i")).collect();
    let device = "sys-subsystem-net-devices-%i.device";
    assert_eq!(escaped, [format!("BindsTo={device}"), format!("After={device}")]);
}

/// Frames that fit into the limit of locked memory of any process, which root of this machine may not be able to lift as the unit does.
const FEW_FRAMES: &str = "xdp:am0,frames=4096";

/// A user each for two tests: the limit holds for all processes of a user together.
const USERS: [u32; 2] = [20_021, 20_022];

/// A host with a NIC.
fn host(name: &str) -> [Host; 2] {
    let hosts = [name.to_owned(), format!("{name}-far")].map(|name| Host::new(&name).expect("root"));
    veth(&hosts[0], "am0", &hosts[1], "am0", &VethOptions::default()).unwrap();
    hosts
}

/// The capabilities of a running process, by set.
fn capabilities(pid: u32) -> BTreeMap<String, u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let lines = status.lines().filter_map(|line| line.strip_prefix("Cap")?.split_once(":\t"));
    lines.map(|(set, bits)| (set.to_owned(), u64::from_str_radix(bits, 16).unwrap())).collect()
}

/// NET_ADMIN, NET_RAW, IPC_LOCK, PERFMON and BPF, as bits.
const KEPT: u64 = 1 << 12 | 1 << 13 | 1 << 14 | 1 << 38 | 1 << 39;

#[test]
fn a_daemon_of_root_drops_what_it_does_not_need() {
    let hosts = host("amd-drops");
    let place = Place::new();
    assert!(capabilities(std::process::id())["Prm"] & KEPT == KEPT, "it starts with those of the test");
    for (wire, kept) in [("xdp:am0", KEPT), ("udp:127.0.0.1:0", 0), ("local", 0)] {
        let socket = place.path(&format!("{}.sock", wire.split(':').next().unwrap()));
        let mut command = Command::new(place.path("amd"));
        command.args(["run", wire, "--socket"]).arg(&socket).stdout(Stdio::null()).stderr(Stdio::null());
        // The addresses of a new host are down: loopback is of no use there.
        let child = if wire == "xdp:am0" { hosts[0].enter(|| command.spawn()).unwrap() } else { command.spawn() };
        let daemon = Process(child.unwrap());
        let pid = daemon.0.id();
        // It drops them before it says that it serves, and answers after that.
        until("it serves", || is_served(&socket));
        let has = capabilities(pid);
        let expected = [("Amb", 0), ("Bnd", kept), ("Eff", kept), ("Inh", 0), ("Prm", kept)];
        assert_eq!(has, expected.map(|(set, bits)| (set.to_owned(), bits)).into(), "{wire}: {has:x?}");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    }
}

/// Start a daemon with these capabilities. Its error, or nothing if it serves.
fn start_with(host: &Host, place: &Place, capabilities: &str) -> Option<String> {
    let mut said = None;
    // They are all that the limit allows, and the kernel frees those of the daemon before a little after its end.
    until("the frames of the daemon before are free", || {
        said = run(host, place, as_user(USERS[0], capabilities), FEW_FRAMES);
        !said.as_ref().is_some_and(|why| why.contains("locked memory"))
    });
    said
}

/// Start a daemon by this command.
fn run(host: &Host, place: &Place, mut command: Command, wire: &str) -> Option<String> {
    let socket = place.path("amd.sock");
    command.arg(place.path("amd")).args(["run", wire, "--socket"]).arg(&socket);
    let child = host.enter(|| command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()).unwrap().unwrap();
    let mut daemon = Process(child);
    let mut status = None;
    until("it serves, or has ended", || {
        status = daemon.0.try_wait().unwrap();
        status.is_some() || is_served(&socket)
    });
    let mut said = String::new();
    status?;
    daemon.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    Some(said)
}

#[test]
fn each_capability_of_the_unit_is_needed_and_missed_by_name() {
    let hosts = host("amd-needs");
    let place = Place::new();
    assert_eq!(start_with(&hosts[0], &place, &granted()), None);
    let granted = granted();
    let names: Vec<_> = granted.split(",+").filter(|name| !name.is_empty()).collect();
    assert_eq!(names, ["bpf", "net_admin", "net_raw", "perfmon"]);
    for name in names {
        let why = start_with(&hosts[0], &place, &granted.replace(&format!(",+{name}"), ""));
        // The verifier of a newer kernel does without.
        if name == "perfmon" && is_newer_than_6_11() {
            assert_eq!(why, None);
            continue;
        }
        let why = why.unwrap_or_else(|| panic!("it starts without CAP_{name}"));
        assert!(why.contains(&format!("CAP_{}", name.to_uppercase())), "{name}: {why}");
    }
    // The limit that the unit lifts.
    let mut command = Command::new("prlimit");
    let inner = as_user(USERS[0], &granted);
    command.arg("--memlock=65536").arg(inner.get_program()).args(inner.get_args());
    assert_eq!(setting("LimitMEMLOCK="), "infinity");
    let why = run(&hosts[0], &place, command, "xdp:am0").expect("it starts without locked memory");
    assert!(why.contains("LimitMEMLOCK=infinity in the systemd unit"), "{why}");
}

fn is_newer_than_6_11() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(12))
}

/// The sets of system calls that systemd knows.
fn sets() -> BTreeMap<String, Vec<String>> {
    let (text, mut sets, mut set) = (analyze(&["syscall-filter", "--no-pager"]), BTreeMap::new(), String::new());
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        if line.starts_with('@') {
            set = line.trim().to_owned();
        } else if !line.trim().is_empty() {
            sets.entry(set.clone()).or_insert_with(Vec::new).push(line.trim().to_owned());
        }
    }
    sets
}

/// All calls that these names stand for.
fn calls<'a>(names: impl Iterator<Item = &'a str>, sets: &'a BTreeMap<String, Vec<String>>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut left: Vec<&str> = names.collect();
    while let Some(name) = left.pop() {
        match sets.get(name) {
            Some(inner) => left.extend(inner.iter().map(String::as_str)),
            None => _ = all.insert(name.to_owned()),
        }
    }
    all
}

#[test]
fn the_daemon_does_nothing_that_the_unit_forbids() {
    let hosts = host("amd-calls");
    let place = Place::new();
    let (socket, trace) = (place.path("amd.sock"), place.path("trace"));
    let inner = as_user(USERS[1], &granted());
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(&trace).arg(inner.get_program()).args(inner.get_args());
    command.arg(place.path("amd")).args(["run", FEW_FRAMES, "--mode", "666", "--socket"]).arg(&socket);
    let child = hosts[0].enter(|| command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()).unwrap();
    let daemon = Process(child.unwrap_or_else(|why| panic!("strace: {why}; apt-get install strace")));
    until("it serves", || is_served(&socket));
    // Everything that a daemon does: programs attach, talk and end; it sleeps; it ends.
    let server = program(20_002, &place, "beta", &socket);
    until("the server has its name", || port(&socket, "beta").is_some());
    succeeds(program(20_001, &place, "alpha>beta", &socket));
    drop(server);
    until("the ports are free", || list(&socket).ports.is_empty());
    std::thread::sleep(std::time::Duration::from_millis(300));
    let traced = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", daemon.0.id())).unwrap();
    kill(Pid::from_raw(traced.trim().parse().unwrap()), Signal::SIGTERM).unwrap();
    succeeds(daemon);
    check_trace(&std::fs::read_to_string(&trace).unwrap(), &place.path(""));
}

/// What is traced from the start of the daemon on.
fn check_trace(trace: &str, place: &std::path::Path) {
    let begin = trace.rfind("execve(").expect("it was started");
    let lines: Vec<&str> = trace[begin..].lines().skip(1).collect();
    assert!(lines.len() > 1000, "{} calls", lines.len());
    let sets = sets();
    let allowed = calls(setting("SystemCallFilter=").split(' '), &sets);
    let families: Vec<_> = setting("RestrictAddressFamilies=").split(' ').collect();
    for line in lines {
        // `PID name(arguments) = result`; the rest of an interrupted call, signals and ends have no name.
        let call = line.split_once(' ').map_or(line, |(_, call)| call.trim_start());
        let Some((name, arguments)) = call.split_once('(').filter(|(name, _)| !name.starts_with(['<', '-', '+']))
        else {
            continue;
        };
        assert!(allowed.contains(name), "SystemCallFilter= lacks it: {line}");
        if name == "socket" {
            let family = arguments.split(',').next().unwrap();
            assert!(families.contains(&family), "RestrictAddressFamilies= lacks it: {line}");
        }
        assert!(!(line.contains("PROT_WRITE") && line.contains("PROT_EXEC")), "MemoryDenyWriteExecute=: {line}");
        assert!(!line.contains("CLONE_NEW") && name != "setns", "RestrictNamespaces=: {line}");
        let writes = ["O_WRONLY", "O_RDWR", "O_CREAT"].iter().any(|mode| line.contains(mode));
        if name.starts_with("open") && writes && !line.contains(" = -1 ") {
            let path = arguments.split('"').nth(1).unwrap();
            let is_own = std::path::Path::new(path).starts_with(place);
            assert!(
                is_own || ["/dev/", "/proc/", "/sys/"].iter().any(|top| path.starts_with(top)),
                "ProtectSystem=: {line}"
            );
        }
    }
}
