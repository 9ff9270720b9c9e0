//! Two hosts on a cable. The daemons run as `nobody` with the capabilities of the unit and no others; the programs run as further
//! users, without any.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use am_api::{HandlerId, Node, Request};
use am_netns::{Host, VethOptions, veth};
use am_testing::example::copy_program;

use crate::common::{list, port, until};

/// The unit of the daemon.
pub(crate) const UNIT: &str = include_str!("../../systemd/amd@.service");
pub(crate) const NOBODY: u32 = 65_534;
pub(crate) const ECHO: HandlerId = HandlerId(0);

/// What a client asks.
const CALLS: u64 = 5_000;

/// Set in a process that this test starts as another user: the role that it plays.
pub(crate) const ROLE: &str = "AMD_TEST_ROLE";

/// A directory that other users can reach, with copies of the programs.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(place.0.path(), open).unwrap();
        for (from, to) in
            [(PathBuf::from(env!("CARGO_BIN_EXE_amd")), "amd"), (std::env::current_exe().unwrap(), "test")]
        {
            copy_program(from, place.path(to));
        }
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// A process; killed when dropped.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command that this user runs, with these capabilities in all sets and no others.
pub(crate) fn as_user(user: u32, capabilities: &str) -> Command {
    let mut command = Command::new("setpriv");
    let (reuid, regid) = (format!("--reuid={user}"), format!("--regid={user}"));
    let sets = [format!("--inh-caps=-all{capabilities}"), format!("--ambient-caps=-all{capabilities}")];
    let bounding = format!("--bounding-set=-all{capabilities}");
    command.args([reuid, regid, "--clear-groups".into(), bounding]).args(sets).arg("--no-new-privs");
    command
}

/// What the unit grants, as `setpriv` has it.
pub(crate) fn granted() -> String {
    let line = |key: &str| UNIT.lines().find_map(|line| line.strip_prefix(key)).unwrap().to_lowercase();
    let ambient = line("AmbientCapabilities=");
    assert_eq!(ambient, line("CapabilityBoundingSet="));
    ambient.split(' ').map(|name| format!(",+{}", name.strip_prefix("cap_").unwrap())).collect()
}

pub(crate) fn daemon(host: &Host, place: &Place, socket: &Path, more: &[&str]) -> (Process, String) {
    // The unit lifts the limit of locked memory, which root of this machine may not be able to do: this capability stands for it.
    let mut command = as_user(NOBODY, &format!("{},+ipc_lock", granted()));
    command.arg(place.path("amd")).args(["run", "xdp:am0", "--mode", "666", "--socket"]).arg(socket).args(more);
    let mut child = host.enter(|| command.stdout(Stdio::piped()).spawn()).unwrap().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("serves xdp:am0"), "{line}");
    (Process(child), line)
}

/// This test program again, as another user without any capability: it runs one test, which has a role.
pub(crate) fn test_of(user: u32, place: &Place, test: &str, role: &str) -> Process {
    let mut command = as_user(user, "");
    command.arg(place.path("test")).args([test, "--exact"]).env(ROLE, role).stdout(Stdio::null());
    Process(command.spawn().unwrap())
}

/// A node in a process of another user.
pub(crate) fn program(user: u32, place: &Place, role: &str, socket: &Path) -> Process {
    test_of(user, place, "users::a_role_of_another_user", &format!("{role} amd:{}", socket.display()))
}

/// A role in a process of another user; in the tests' own process nothing. It is the name of a node, and the name of the server that
/// the node calls. A node that calls itself serves.
#[test]
fn a_role_of_another_user() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (role, transport) = role.split_once(' ').unwrap();
    let (name, server) = role.split_once('>').unwrap_or((role, role));
    let node = Node::open(name, transport).unwrap();
    let mut endpoint = node.endpoint("main").unwrap();
    endpoint.on_request(ECHO, |_: &mut u64, Request { message, token }| _ = token.reply(ECHO, &[], message.payload()));
    endpoint.on_reply(ECHO, |count: &mut u64, _| *count += 1);
    let mut count = 0;
    if name == server {
        loop {
            endpoint.wait(&mut count, std::time::Duration::from_millis(50));
        }
    }
    let to = endpoint.connect(server, "main").unwrap();
    let mut asked = 0;
    until("all replies arrive", || {
        while asked < CALLS && endpoint.try_request(to, ECHO, &[], &[7; 64]).is_ok() {
            asked += 1;
        }
        endpoint.poll(&mut count);
        count == CALLS
    });
    check_path(&node, name);
}

/// A client whose name begins with `queue` has its messages from its own queue, any other none.
fn check_path(node: &Node, name: &str) {
    let received = node.counters().get("queue_received");
    assert_eq!(received > 20, name.starts_with("queue"), "{name}: {received}");
}

/// The program ends, and without an error.
#[track_caller]
pub(crate) fn succeeds(mut program: Process) {
    let mut status = None;
    until("the client has ended", || {
        status = program.0.try_wait().unwrap();
        status.is_some()
    });
    assert!(status.unwrap().success());
}

#[test]
fn the_daemon_needs_few_capabilities_and_its_programs_none() {
    let hosts = ["amd-alpha", "amd-beta"].map(|name| Host::new(name).expect("root"));
    let _ends = veth(&hosts[0], "am0", &hosts[1], "am0", &VethOptions::default()).unwrap();
    let place = Place::new();
    let [near, far] = [place.path("near.sock"), place.path("far.sock")];
    let (first, said) = daemon(&hosts[0], &place, &near, &[]);
    let (second, _) = daemon(&hosts[1], &place, &far, &[]);
    let kept = ["CAP_BPF", "CAP_IPC_LOCK", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_PERFMON"].join(" ");
    assert!(said.trim_end().ends_with(&kept), "{said}");

    let server = program(20_002, &place, "beta", &far);
    until("the server has its name", || port(&far, "beta").is_some());
    assert_eq!(port(&far, "beta").unwrap().uid, 20_002);
    for (user, role, socket) in [(20_001, "alpha>beta", &near), (20_003, "gamma>beta", &far)] {
        succeeds(program(user, &place, role, socket));
    }
    let wire = list(&near);
    assert!(wire.from_wire > 20 && wire.to_wire > 20, "{wire:?}");
    drop(server);
    until("the ports are free", || list(&near).ports.is_empty() && list(&far).ports.is_empty());
    for mut daemon in [first, second] {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(daemon.0.id() as i32), nix::sys::signal::Signal::SIGTERM)
            .unwrap();
        assert!(daemon.0.wait().unwrap().success());
    }
    assert!(!near.exists() && !far.exists());
}
