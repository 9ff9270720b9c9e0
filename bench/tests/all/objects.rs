//! am-bench objects: every call has its figures, and what is compared is what was measured.

use std::os::unix::fs::symlink;

use crate::common::{am_bench, check_objects, has_redis, json, plotted, run, text};

const SHORT: &[&str] = &["--rounds", "2", "--time", "0.02"];

#[test]
fn objects_over_the_loopback_interface_are_beside_the_messages_of_a_bare_group() {
    let (lines, svg) = plotted(&[&["objects", "--json", "--hosts", "udp"], SHORT]);
    check_objects(&lines, 3, "udp", 2, has_redis());
    assert!(svg.ends_with("</svg>\n"));
    for part in ["request", "write", "1 MiB", "openraft"] {
        assert!(svg.contains(&format!("\n{part}\n")), "{part}");
    }
}

#[test]
fn without_redis_its_row_is_left_out_and_the_reason_stands_below() {
    let programs = tempfile::tempdir().unwrap();
    symlink("/bin/sh", programs.path().join("sh")).unwrap();
    let asked = ["objects", "--hosts", "shm", "--members", "2", "--rounds", "1", "--time", "0.02"];
    let of = |format: &[&str]| am_bench().args(asked).args(format).env("PATH", programs.path()).output().unwrap();
    check_objects(&json(&of(&["--json"])), 2, "shm", 1, false);
    let said = of(&[]);
    let why = "redis-server is not installed: scripts/setup --with-peers";
    assert!(text(&said.stderr).contains(&format!("no Redis: {why}")), "{}", text(&said.stderr));
    assert!(text(&said.stdout).contains(&format!("not measured: redis: {why}")), "{}", text(&said.stdout));
}

#[test]
fn two_members_say_what_the_rows_are() {
    let said = run(&[&["objects", "--hosts", "shm", "--members", "2"], SHORT]);
    assert!(said.status.success(), "{}", text(&said.stderr));
    let said = text(&said.stdout);
    for part in [
        "2 members, each a process; all share ",
        "  objects   read_latest       safe",
        "  objects   pop               agreed",
        "  group     message           safe",
        "  openraft  set ",
        "1170 µs",
        "  GOI latency over multicast's",
        "2 rounds, turns taken in turn",
    ] {
        assert!(said.contains(part), "no {part}: {said}");
    }
    assert_eq!(said.contains("not measured"), !has_redis(), "{said}");
}
