//! Queues of the NIC for programs that are trusted with one: they have no capability, and the daemon sees none of their messages. The
//! cable has two queues, so each daemon has one to lend.

use std::time::Duration;

use am_netns::{Host, VethOptions, veth};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::{list, port, until};
use crate::users::{Place, daemon, program, succeeds};

/// Users whose programs get queues. All others get ports.
const RULES: &str = "
[[allow]]
user = 20001
queue = true
[[allow]]
user = 20002
queue = true
[[allow]]
";

struct Cable {
    hosts: [Host; 2],
    place: Place,
}

impl Cable {
    fn new(names: [&str; 2]) -> Cable {
        let hosts = names.map(|name| Host::new(name).expect("root"));
        let _ends =
            veth(&hosts[0], "am0", &hosts[1], "am0", &VethOptions { queues: 2, ..VethOptions::default() }).unwrap();
        let place = Place::new();
        std::fs::write(place.path("rules"), RULES).unwrap();
        Cable { hosts, place }
    }

    fn daemon(&self, end: usize) -> crate::users::Process {
        let rules = self.place.path("rules");
        daemon(&self.hosts[end], &self.place, &self.socket(end), &["--config", rules.to_str().unwrap()]).0
    }

    fn socket(&self, end: usize) -> std::path::PathBuf {
        self.place.path(["near.sock", "far.sock"][end])
    }

    fn program(&self, user: u32, role: &str, end: usize) -> crate::users::Process {
        program(user, &self.place, role, &self.socket(end))
    }

    fn queue_of(&self, name: &str, end: usize) -> Option<u32> {
        port(&self.socket(end), name).unwrap().queue
    }

    /// Start a client that gets a queue. The kernel frees that of a killed program a little after its end.
    fn client_with_queue(&self, name: &str, server: &str) -> crate::users::Process {
        let socket = self.socket(0);
        for _ in 0..100 {
            let mut client = self.program(20_001, &format!("{name}>{server}"), 0);
            let mut found = None;
            until("the client is attached, or has ended", || {
                found = port(&socket, name);
                found.is_some() || client.0.try_wait().unwrap().is_some()
            });
            if found.is_none_or(|port| port.queue.is_some()) {
                return client;
            }
            client.0.kill().unwrap();
            until("its name is free", || port(&socket, name).is_none());
        }
        panic!("no queue is free");
    }

    /// Start a server, and wait for its name.
    fn server(&self, user: u32, name: &str, end: usize) -> crate::users::Process {
        let server = self.program(user, name, end);
        until("the server has its name", || port(&self.socket(end), name).is_some());
        server
    }
}

#[test]
fn messages_pass_a_programs_own_queue_and_not_the_daemon() {
    let cable = Cable::new(["amd-queue-near", "amd-queue-far"]);
    let _daemons = [cable.daemon(0), cable.daemon(1)];
    let _servers = [cable.server(20_002, "beta", 1), cable.server(20_004, "epsilon", 1)];
    assert_eq!((cable.queue_of("beta", 1), cable.queue_of("epsilon", 1)), (Some(1), None));

    let before = list(&cable.socket(0));
    succeeds(cable.program(20_001, "queue-alpha>beta", 0));
    let after = list(&cable.socket(0));
    let passed = after.from_wire - before.from_wire + after.to_wire - before.to_wire;
    assert!(passed < 100, "only beacons pass the daemon: {passed}");

    // A program of the same host reaches it through the daemon, and programs without a queue go on.
    succeeds(cable.program(20_003, "lanes-gamma>beta", 1));
    succeeds(cable.program(20_003, "lanes-delta>epsilon", 0));
    assert!(list(&cable.socket(0)).to_wire - after.to_wire > 20);
}

#[test]
fn a_queue_returns_when_its_program_is_killed_and_without_one_there_is_a_port() {
    let cable = Cable::new(["amd-kill-near", "amd-kill-far"]);
    let _daemons = [cable.daemon(0), cable.daemon(1)];
    let _beta = cable.server(20_002, "beta", 1);
    let mut first = cable.server(20_001, "first", 0);
    let second = cable.server(20_001, "second", 0);
    assert_eq!((cable.queue_of("first", 0), cable.queue_of("second", 0)), (Some(1), None));
    let why = port(&cable.socket(0), "second").unwrap().no_queue.unwrap();
    assert!(why.contains("has 2 queues, and all are in use"), "{why}");

    first.0.kill().unwrap();
    until("the port is free", || port(&cable.socket(0), "first").is_none());
    succeeds(cable.client_with_queue("queue-third", "beta"));
    drop(second);
}

/// The next daemon finds the queue in use, and nobody to whom it has lent it.
#[test]
fn a_program_waits_for_a_queue_that_is_soon_released() {
    let cable = Cable::new(["amd-soon-near", "amd-soon-far"]);
    let (mut near, _far) = (cable.daemon(0), cable.daemon(1));
    let _beta = cable.server(20_002, "beta", 1);
    let mut first = cable.server(20_001, "first", 0);
    assert_eq!(cable.queue_of("first", 0), Some(1));
    // Stopped, it does not see that its daemon has ended.
    kill(Pid::from_raw(first.0.id() as i32), Signal::SIGSTOP).unwrap();
    near.0.kill().unwrap();
    near.0.wait().unwrap();
    let _next = cable.daemon(0);
    let second = cable.program(20_001, "queue-second>beta", 0);
    std::thread::sleep(Duration::from_millis(300));
    first.0.kill().unwrap();
    succeeds(second);
}

#[test]
fn a_program_gets_a_queue_again_from_the_next_daemon() {
    let cable = Cable::new(["amd-again-near", "amd-again-far"]);
    let _near = cable.daemon(0);
    let mut far = cable.daemon(1);
    let _beta = cable.server(20_002, "beta", 1);
    succeeds(cable.program(20_001, "queue-alpha>beta", 0));
    far.0.kill().unwrap();
    far.0.wait().unwrap();
    let _next = cable.daemon(1);
    until("the server is back", || port(&cable.socket(1), "beta").is_some_and(|port| port.queue == Some(1)));
    succeeds(cable.program(20_001, "queue-gamma>beta", 0));
}
