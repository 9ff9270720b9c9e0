//! Programs of our own, over each transport that needs no rights.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::kills::wait_for_none;
use crate::machine::{Machine, Said};

pub(crate) const TRANSPORTS: [&str; 3] = ["shm", "udp", "shm+udp"];

/// Run this program in a machine of its own. It has to end well and say this, with at least this number of active messages.
pub(crate) fn check(program: &str, arguments: &[&str], transport: &str, wanted: &str, at_least: u64) -> Said {
    let machine = Machine::start();
    machine.compile(program);
    let said = machine.run(machine.with_library(program, transport).args(arguments), "");
    assert!(said.is_good && said.output.contains(wanted), "{program} {arguments:?} over {transport}: {said:#?}");
    assert!(said.received() >= at_least, "{} active messages: {said:#?}", said.received());
    said
}

pub(crate) fn check_over_each(program: &str, arguments: &[&str], wanted: &str, at_least: u64) {
    for transport in TRANSPORTS {
        check(program, arguments, transport, wanted, at_least);
    }
}

#[test]
fn messages_keep_their_order_while_a_pair_changes_its_route() {
    check_over_each("order", &["3000"], "3000 messages in their order", 4000);
}

/// The 64 tasks with shared memory answer each other, and the others have datagrams only.
#[test]
fn more_tasks_than_shared_memory_has_places_for_talk_to_each_other() {
    check("all", &["70", "4"], "shm+udp", "70 tasks, 4 rounds: all contents are right", 1000);
}

#[test]
fn an_empty_transport_is_the_default() {
    let said = check("order", &["2000"], "", "2000 messages in their order", 2500);
    assert!(said.errors.contains("over shm:") && said.errors.contains("+udp:"), "{said:#?}");
    // Those before the agreement. The last route is named behind them.
    let passed = said.errors.lines().find_map(|line| line.split_once(" took PVM's routes)")?.0.rsplit('(').next());
    assert!(passed.is_some_and(|passed| passed.ends_with(" messages") || passed == "1 message"), "{said:#?}");
}

#[test]
fn a_check_says_what_a_task_without_a_daemon_has_not() {
    let machine = Machine::start();
    machine.compile("all");
    let check = |transport: &str, place: &str| {
        let mut command = machine.with_library("all", transport);
        let said = machine.run(command.env("PVM_AM_CHECK", "1").env("PVM_TMP", machine.path(place)), "").output;
        assert!(said.starts_with("pvm-am works: PVM 3.4.6, over "), "{said}");
        said.contains("; in a task, with this host's address instead of 127.0.0.1")
    };
    assert!(check("shm+udp", "no-daemon") && check("tcp", "no-daemon"));
    assert!(!check("shm", "no-daemon") && !check("udp:127.0.0.1:0", "no-daemon") && !check("shm+udp", "."));
    // The name by which `pvm-am` knows this library.
    let names =
        am_testing::c_program::run(Command::new("readelf").args(["--dyn-syms", "--wide"]).arg(machine.library()));
    assert!(names.lines().any(|line| line.ends_with(" PVM_AM_LIBRARY") && !line.contains(" UND ")), "{names}");
}

#[test]
fn direct_routes_are_not_needed_where_they_are_wanted() {
    const DIRECT: &str = "3";
    const NONE: &str = "1";
    check("order", &["2000", DIRECT], "shm", "2000 messages in their order", 2500);
    check("order", &["2000", NONE], "shm", "2000 messages in their order", 2500);
}

/// Each waits in PVM's `mroute` for the answers of the others.
#[test]
fn tasks_that_ask_each_other_for_direct_routes_at_once_are_answered() {
    for _ in 0..4 {
        check("all", &["8", "4", "3"], "udp", "8 tasks, 4 rounds: all contents are right", 0);
    }
}

#[test]
fn tasks_without_the_library_get_their_messages() {
    // PVM loses the order of a pair whose direct route opens under load, so that is not asked for here.
    let runs: [(&str, &[&str], &str); 2] = [
        ("order", &["1000", "2"], "1000 messages in their order"),
        ("all", &["4", "20", "3"], "4 tasks, 20 rounds: all contents are right"),
    ];
    for (program, arguments, wanted) in runs {
        let machine = Machine::start();
        machine.compile(program);
        let mut command = machine.with_library(program, "shm+udp");
        // Its children do not have the library.
        let said = machine.run(command.env_remove("PVM_EXPORT").args(arguments), "");
        assert!(said.is_good && said.output.contains(wanted), "{said:#?}");
        assert_eq!(said.received(), 0, "{said:#?}");
        let without = machine.run(machine.command(program).args(arguments), "");
        assert!(without.is_good && without.output.contains(wanted), "{without:#?}");
    }
}

/// The tasks that it spawns have the library.
#[test]
fn a_task_with_a_pvm_of_its_own_is_reached_as_before() {
    let run = |name: &str, arguments: &[&str]| {
        let machine = Machine::start();
        machine.compile(name);
        let own = machine.compile_with_own_pvm(name);
        machine.run(machine.with_library(&own.to_string_lossy(), "shm+udp").args(arguments), "")
    };
    let said = run("all", &["4", "30"]);
    let wanted = "4 tasks, 30 rounds: all contents are right";
    assert!(said.is_good && said.output.contains(wanted) && said.received() >= 100, "{said:#?}");
    let said = run("order", &["1000"]);
    assert!(said.is_good && said.output.contains("1000 messages in their order"), "{said:#?}");
    assert_eq!(said.received(), 0, "{said:#?}");
}

/// The programs with two versions of the library, one of which starts them.
fn run_two_versions(transport: &str, starts_other: bool) {
    let machine = Machine::start();
    let (own, other) = (machine.library().to_owned(), machine.other_version());
    let (first, second) = if starts_other { (other, own) } else { (own, other) };
    let run = |program: &str, arguments: &[&str]| {
        machine.compile(program);
        let mut command = machine.with_library(program, transport);
        machine.run(command.env("LD_PRELOAD", &first).env("AM_OTHER", &second).args(arguments), "")
    };
    let said = run("order", &["2000"]);
    assert!(said.is_good && said.output.contains("2000 messages in their order"), "over {transport}: {said:#?}");
    assert_eq!(said.received(), 0, "over {transport}: {said:#?}");
    let said = run("all", &["6", "30"]);
    let wanted = "6 tasks, 30 rounds: all contents are right";
    assert!(said.is_good && said.output.contains(wanted) && said.received() >= 200, "over {transport}: {said:#?}");
    // Three of each version.
    let reports = said.errors.lines().chain(said.log.lines()).filter(|line| line.contains(" tasks reached"));
    let numbers =
        reports.filter_map(|line| line.split_once(" tasks reached")?.0.rsplit(' ').next()?.parse::<u32>().ok());
    assert!(numbers.max() == Some(2), "over {transport}: {said:#?}");
    let said = run("ending", &["leave", "3"]);
    assert!(
        said.is_good && said.output.contains("3 tasks have ended, with whole messages"),
        "over {transport}: {said:#?}"
    );
}

#[test]
fn two_versions_of_the_library_use_the_own_routes_of_pvm() {
    run_two_versions("shm+udp", false);
    run_two_versions("udp", true);
}

#[test]
fn all_reach_all() {
    check("all", &["8", "30"], "shm+udp", "8 tasks, 30 rounds: all contents are right", 1000);
    check("all", &["5", "40"], "udp", "5 tasks, 40 rounds: all contents are right", 400);
}

#[test]
fn the_notice_of_an_exit_comes_after_the_last_message() {
    check_over_each("ending", &["leave", "5"], "5 tasks have ended, with whole messages", 200);
    check_over_each("ending", &["exit", "5"], "5 tasks have ended, with whole messages", 200);
}

/// A daemon tells of a task that it has not started as soon as that one says so, while what it has sent is still on its way.
#[test]
fn the_notice_of_an_exit_waits_for_a_task_from_outside() {
    for transport in TRANSPORTS {
        let said = check("ending", &["first"], transport, "all was sent", 50);
        assert!(said.log.contains("all has arrived before the notice"), "over {transport}: {said:#?}");
    }
}

/// A task without the library, too, is forgotten.
#[test]
fn nothing_is_kept_of_tasks_that_have_ended() {
    const GONE: &str = "150 tasks have come and gone";
    for transport in TRANSPORTS {
        let said = check("many", &["150"], transport, GONE, 500);
        let [tasks, nodes, addresses] = known(&said).unwrap_or_else(|| panic!("{said:#?}"));
        assert_eq!(tasks, 0, "over {transport}: {said:#?}");
        // The last beacon of a task may come behind the notice.
        assert!(nodes <= 20 && addresses <= 20, "over {transport}: {said:#?}");
    }
    let machine = Machine::start();
    machine.compile("many");
    let said = machine.run(machine.with_library("many", "shm+udp").env_remove("PVM_EXPORT").arg("150"), "");
    assert!(said.is_good && said.output.contains(GONE), "{said:#?}");
    assert_eq!(known(&said), Some([0, 0, 0]), "{said:#?}");
}

/// How many tasks, nodes and addresses the first task knows at its end.
pub(crate) fn known(said: &Said) -> Option<[u32; 3]> {
    let report = said.errors.lines().find_map(|line| line.split_once("; ")?.1.strip_suffix(" are known"))?;
    let numbers: Vec<u32> = report.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().ok()
}

#[test]
fn a_killed_task_leaves_no_part_of_a_message() {
    check_over_each("ending", &["kill", "15"], "15 tasks have ended, with whole messages", 100);
    check_over_each("ending", &["abort", "5"], "5 tasks have ended", 50);
}

#[test]
fn a_wait_costs_nothing_and_a_task_that_computes_receives() {
    check_over_each("waiting", &[], "a wait costs nothing", 24);
}

#[test]
fn a_task_that_is_stopped_is_not_dead() {
    check_over_each("stopped", &[], "a task that was stopped has got 60 messages", 60);
}

#[test]
fn a_task_that_leaves_does_not_wait_for_one_that_was_killed() {
    check_over_each("stopped", &["kill"], "left", 10);
}

#[test]
fn select_sees_each_message() {
    const SEEN: &str = "select has seen 100 messages";
    for way in ["each", "once", "news"] {
        let machine = Machine::start();
        machine.compile("descriptors");
        let said = machine.run(machine.command("descriptors").arg(way), "");
        assert!(said.is_good && said.output.contains(SEEN), "{way} without the library: {said:#?}");
        check("descriptors", &[way], "shm+udp", SEEN, 100);
    }
    check("descriptors", &["once"], "udp", SEEN, 100);
    check("descriptors", &["news"], "shm", SEEN, 100);
}

#[test]
fn handlers_of_the_program_send() {
    check_over_each("handlers", &[], "handlers have answered 300 times, and a task reaches itself", 900);
}

#[test]
fn a_task_that_leaves_gets_one_notice_of_its_own_exit() {
    let machine = Machine::start();
    machine.compile("leaving");
    for command in [&mut machine.command("leaving"), &mut machine.with_library("leaving", "shm+udp")] {
        for _ in 0..3 {
            let said = machine.run(command, "");
            assert!(said.is_good && said.output == "200 notices of 200 exits\n", "{said:#?}");
        }
    }
}

#[test]
fn nothing_is_left_of_a_machine() {
    let machine = Machine::start();
    machine.compile("all");
    let mut command = machine.with_library("all", "shm");
    let mut running =
        command.args(["4", "4000"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a program");
    // While the tasks run there is a link.
    let end = Instant::now() + Duration::from_secs(60);
    while Machine::links(machine.directory()).is_empty() {
        assert!(Instant::now() < end, "no link");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(running.wait().expect("its end").success());
    wait_for_none(|| Machine::links(machine.directory()));
}

#[test]
fn an_unknown_transport_is_one_warning_and_the_program_runs() {
    let machine = Machine::start();
    machine.compile("all");
    let said = machine.run(machine.with_library("all", "pigeon:7").args(["3", "3"]), "");
    assert!(said.is_good && said.output.contains("all contents are right"), "{said:#?}");
    assert_eq!(said.errors.matches("The messages of this task take PVM's own routes").count(), 1, "{said:#?}");
    let said = machine.run(machine.with_library("all", "shm+").args(["3", "3"]), "");
    assert!(said.is_good && said.errors.contains("has a `+` that joins nothing"), "{said:#?}");
}
