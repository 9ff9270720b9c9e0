//! Access through a running daemon: the mode and the group of its socket, and the rules with their limits.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use am_daemon::admin::{self, Answer, Question};

use crate::common::{is_served, list, port, until};
use crate::users::{NOBODY, Place, Process, ROLE, succeeds, test_of};

const ALICE: u32 = 20_011;
const BOB: u32 = 20_012;
const CLUSTER: u32 = 20_010;

/// A daemon without a wire, of this user.
fn local(user: u32, place: &Place, socket: &Path, arguments: &[&str]) -> Process {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={user}"), format!("--regid={user}"), format!("--groups={CLUSTER}")]);
    command.arg(place.path("amd")).args(["run", "local", "--socket"]).arg(socket).args(arguments);
    let daemon = Process(command.stdout(std::process::Stdio::null()).spawn().unwrap());
    until("it serves", || is_served(socket));
    daemon
}

/// `amd` of this user, with further groups.
fn amd(place: &Place, user: u32, groups: &[u32], arguments: &[&str], socket: &Path) -> Output {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={user}"), format!("--regid={user}")]);
    let groups: Vec<_> = groups.iter().map(ToString::to_string).collect();
    command.arg(if groups.is_empty() { "--clear-groups".into() } else { format!("--groups={}", groups.join(",")) });
    command.arg(place.path("amd")).args(arguments).arg("--socket").arg(socket).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Writes a file that its reader never sees half written.
fn write_whole(path: &Path, text: &str) {
    let part = path.with_extension("part");
    std::fs::write(&part, text).unwrap();
    std::fs::rename(&part, path).unwrap();
}

/// Opens nodes at a socket, each with a name, and says in a file for each how that went. They stay until the file `end` is there.
#[test]
fn the_role_of_a_node() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let mut words = role.split(' ');
    let (place, socket) = (PathBuf::from(words.next().unwrap()), words.next().unwrap().to_owned());
    let nodes: Vec<_> = words
        .map(|name| {
            let node = am_api::Node::open(name, &format!("amd:{socket}"));
            let result = node.as_ref().map_or_else(|error| error.to_string(), |_| "open".to_owned());
            write_whole(&place.join(name), &result);
            node.ok().map(|node| (node.endpoint::<()>("main").unwrap(), node))
        })
        .collect();
    let mut nodes: Vec<_> = nodes.into_iter().flatten().collect();
    until("it may end", || {
        nodes.iter_mut().for_each(|(endpoint, _)| _ = endpoint.poll(&mut ()));
        place.join("end").exists()
    });
}

/// Nodes of a user.
struct Nodes {
    place: PathBuf,
    process: Process,
}

impl Nodes {
    fn open(user: u32, place: &Place, socket: &Path, names: &[&str]) -> Nodes {
        let own = place.path(&format!("nodes-{user}"));
        std::fs::create_dir(&own).unwrap();
        std::os::unix::fs::chown(&own, Some(user), None).unwrap();
        let role = format!("{} {} {}", own.display(), socket.display(), names.join(" "));
        Nodes { process: test_of(user, place, "access::the_role_of_a_node", &role), place: own }
    }

    /// How it went with the node of this name.
    fn result(&self, name: &str) -> String {
        until("the node was tried", || self.place.join(name).exists());
        std::fs::read_to_string(self.place.join(name)).unwrap()
    }

    fn end(self) {
        std::fs::write(self.place.join("end"), "").unwrap();
        succeeds(self.process);
    }
}

#[test]
fn members_of_the_sockets_group_may_attach_and_others_are_told_why_not() {
    let place = Place::new();
    let socket = place.path("amd.sock");
    let _daemon = local(NOBODY, &place, &socket, &["--mode", "660", "--group", &CLUSTER.to_string()]);
    // By its own group, and by a further one.
    assert!(amd(&place, CLUSTER, &[], &["list"], &socket).status.success());
    assert!(amd(&place, ALICE, &[CLUSTER], &["list"], &socket).status.success());
    for groups in [&[][..], &[BOB]] {
        let refused = amd(&place, BOB, groups, &["list"], &socket);
        assert!(!refused.status.success() && said(&refused).contains("may not open"), "{refused:?}");
    }
    let node = Nodes::open(CLUSTER, &place, &socket, &["member"]);
    assert_eq!(node.result("member"), "open");
    node.end();
    let stranger = Nodes::open(BOB, &place, &socket, &["stranger"]);
    let why = stranger.result("stranger");
    assert!(why.contains("group") && why.contains("amd.sock"), "{why}");
    stranger.end();
}

#[test]
fn rules_limit_ports_and_names_of_a_user_while_the_daemon_runs() {
    let place = Place::new();
    let (socket, rules) = (place.path("amd.sock"), place.path("rules"));
    let text = format!("[[allow]]\nuser = {ALICE}\nports = 2\nnames = [\"alice-*\"]\nweight = 3\n");
    std::fs::write(&rules, text).unwrap();
    let _daemon = local(NOBODY, &place, &socket, &["--mode", "666", "--config", rules.to_str().unwrap()]);
    let alice = Nodes::open(ALICE, &place, &socket, &["alice-1", "alice-2", "alice-3"]);
    assert_eq!([alice.result("alice-1"), alice.result("alice-2")], ["open", "open"]);
    let why = alice.result("alice-3");
    assert!(why.contains("has 2 ports") && why.contains("raise `ports`"), "{why}");
    until("both have their names", || port(&socket, "alice-1").is_some() && port(&socket, "alice-2").is_some());
    assert_eq!(port(&socket, "alice-1").unwrap().weight, 3);
    alice.end();

    let bob = Nodes::open(BOB, &place, &socket, &["bob"]);
    let why = bob.result("bob");
    assert!(why.contains(&format!("no rule allows user {BOB}")), "{why}");
    bob.end();

    // The rule does not allow this name.
    std::fs::remove_dir_all(place.path(&format!("nodes-{ALICE}"))).unwrap();
    until("the ports are free", || list(&socket).ports.is_empty());
    let alice = Nodes::open(ALICE, &place, &socket, &["carol"]);
    let why = alice.result("carol");
    assert!(why.contains("`carol`") && why.contains("alice-*"), "{why}");
    assert!(port(&socket, "carol").is_none());
    alice.end();
}

#[test]
fn weights_are_for_root_and_the_daemons_user_and_outlive_the_daemon() {
    let place = Place::new();
    let socket = place.path("amd.sock");
    let mut daemon = local(NOBODY, &place, &socket, &["--mode", "666"]);
    let alice = Nodes::open(ALICE, &place, &socket, &["alpha"]);
    until("it has its name", || port(&socket, "alpha").is_some());
    let weight = |user, weight| amd(&place, user, &[], &["weight", "alpha", weight], &socket);
    let its = || port(&socket, "alpha").unwrap().weight;

    let refused = weight(ALICE, "7");
    assert!(!refused.status.success() && said(&refused).contains("only root and the daemon's user"), "{refused:?}");
    for wrong in ["0", "65", "4294967295"] {
        let refused = weight(0, wrong);
        assert!(!refused.status.success() && said(&refused).contains("out of range: 1 to 64"), "{refused:?}");
    }
    let unknown = admin::ask(&socket, &Question::Weight { name: "nobody".into(), weight: 2 }).unwrap();
    assert!(matches!(unknown, Answer::Refused(why) if why.contains("`amd list` shows the names")));
    assert_eq!(its(), 1);
    assert!(weight(0, "5").status.success());
    assert_eq!(its(), 5);
    assert!(weight(NOBODY, "64").status.success());
    assert_eq!(its(), 64);

    daemon.0.kill().unwrap();
    daemon.0.wait().unwrap();
    let _next = local(NOBODY, &place, &socket, &["--mode", "666"]);
    until("it is back", || port(&socket, "alpha").is_some_and(|port| port.pid != 0));
    assert_eq!(its(), 64);
    alice.end();
}
