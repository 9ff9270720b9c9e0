//! am-bench objects: every call has its figures, and what is compared is what was measured.

use crate::common::{check_objects, json, run, text};

const SHORT: &[&str] = &["--rounds", "2", "--time", "0.02"];

#[test]
fn objects_over_the_loopback_interface_are_beside_the_messages_of_a_bare_group() {
    let lines = json(&run(&[&["objects", "--json", "--hosts", "udp"], SHORT]));
    check_objects(&lines, 3, "udp", 2);
}

#[test]
fn two_members_say_what_the_rows_are() {
    let said = run(&[&["objects", "--hosts", "shm", "--members", "2"], SHORT]);
    assert!(said.status.success(), "{}", text(&said.stderr));
    let said = text(&said.stdout);
    for part in [
        "2 members, each a process; all share ",
        "  objects  read_latest  safe",
        "  objects  pop          agreed",
        "  group    message      safe",
        "2 rounds, turns taken in turn",
    ] {
        assert!(said.contains(part), "no {part}: {said}");
    }
    assert!(!said.contains("not measured"), "{said}");
}
