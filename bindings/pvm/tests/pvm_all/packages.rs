//! Programs of Debian's other packages that use PVM: NetPIPE, S-Lang's module, and a solver of timetables.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use crate::machine::{Machine, Said};

/// The default, which a program gets in `pvm-am run`.
const TRANSPORT: &str = "shm+udp";

/// Both ends of NetPIPE, the first of which waits for the second. `-i` compares what arrives.
const NETPIPE: &str = "NPpvm -i -u 300000 -n 20 -o first > first.log 2>&1 & sleep 0.3
    NPpvm -i -h localhost -u 300000 -n 20 -o sizes > second.log 2>&1 && wait && cat sizes && cat *.log >&2";

/// Run it without the library and with it.
fn both(make: impl Fn(&Machine), command: &[&str]) -> (Said, Said) {
    let run = |with_library| {
        let machine = Machine::start();
        make(&machine);
        let mut full = match with_library {
            true => machine.with_library(command[0], TRANSPORT),
            false => machine.command(command[0]),
        };
        machine.run_for(full.args(&command[1..]), "", Duration::from_secs(120))
    };
    (run(false), run(true))
}

#[test]
fn netpipe_finds_each_byte_where_it_was() {
    let (without, with) = both(|_| {}, &["sh", "-c", NETPIPE]);
    assert!(without.is_good && with.is_good, "{without:#?}\n{with:#?}");
    assert!(with.output.lines().count() > 20, "{with:#?}");
    assert_eq!(without.output, with.output);
    assert!(with.received() >= 300, "{with:#?}");
}

#[test]
fn objects_of_slang_come_back() {
    let copy = |machine: &Machine| {
        let script = machine.path("objects.sl");
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pvm_all/objects.sl"), &script).expect("a script");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("rights");
    };
    let (without, with) = both(copy, &["slsh", "objects.sl"]);
    assert!(without.is_good && with.is_good, "{without:#?}\n{with:#?}");
    assert_eq!(
        (without.output.as_str(), with.output.as_str()),
        ("300 objects came back, 672750\n", without.output.as_str())
    );
    assert!(with.received() >= 400, "{with:#?}");
}

/// Four teachers and four classes, each with each.
fn timetable() -> String {
    const NUMBERS: std::ops::RangeInclusive<u32> = 1..=4;
    let lessons = NUMBERS.flat_map(|teacher| NUMBERS.map(move |class| (teacher, class)));
    let lesson = |(teacher, class)| {
        format!(
            r#"<event name="{teacher}-{class}" repeats="3">
                <resource type="teacher" name="t{teacher}"/><resource type="class" name="c{class}"/></event>"#
        )
    };
    let lessons: String = lessons.map(lesson).collect();
    format!(
        r##"<?xml version="1.0" encoding="iso-8859-1"?>
        <ttm version="0.2.0">
            <modules>
                <module name="sametime.so" weight="60" mandatory="yes">
                    <option name="resourcetype">teacher</option><option name="resourcetype">class</option></module>
                <module name="timeplace.so" weight="60" mandatory="yes"/>
                <module name="holes.so" weight="3" mandatory="no"><option name="resourcetype">class</option></module>
            </modules>
            <resources>
                <constant>
                    <resourcetype type="teacher"><linear name="t#" from="1" to="4"/></resourcetype>
                    <resourcetype type="class"><linear name="c#" from="1" to="4"/></resourcetype>
                </constant>
                <variable>
                    <resourcetype type="time"><matrix width="5" height="6"/></resourcetype>
                    <resourcetype type="room"><linear name="r#" from="1" to="6"/></resourcetype>
                </variable>
            </resources>
            <events>{lessons}</events>
        </ttm>"##
    )
}

#[test]
fn three_solvers_find_a_timetable_each() {
    for with_library in [false, true] {
        let machine = Machine::start();
        fs::write(machine.path("week.xml"), timetable()).expect("a file");
        let mut command = match with_library {
            true => machine.with_library("tablix2", TRANSPORT),
            false => machine.command("tablix2"),
        };
        let said = machine.run_for(command.args(["-n", "3", "-t", "1", "week.xml"]), "", Duration::from_secs(120));
        assert!(said.is_good, "{said:#?}");
        for result in ["result0.xml", "result1.xml", "result2.xml"] {
            assert!(machine.path(result).exists(), "no {result}: {said:#?}");
        }
        assert!(!with_library || said.received() >= 100, "{said:#?}");
    }
}
