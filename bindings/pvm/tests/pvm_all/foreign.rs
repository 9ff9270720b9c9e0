//! PVM libraries that are not the one that is known: made of the distribution's archive, with another function, or without one.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::machine::{Machine, Said};

const NAME: &str = "libpvm3.so.3";

/// Another version.
const VERSION: &str = r#"char *pvm_version(void) { return "3.4.9"; }"#;

/// A message's length is elsewhere, as it seems.
const STRUCTURE: &str = "int pvm_bufinfo(int mid, int *bytes, int *tag, int *from) {
    (void)mid;
    *bytes = *tag = *from = 7;
    return 0;
}";

/// Make a library of this name with this function in place of PVM's, and without a function. Returns its directory.
fn make(machine: &Machine, name: &str, function: &str, hidden: &str) -> PathBuf {
    let archive = Command::new("cc").arg("-print-file-name=libpvm3.a").output().expect("a compiler").stdout;
    let archive = String::from_utf8(archive).expect("a path");
    let (directory, file) = (machine.path("foreign"), |name: &str| machine.path(name));
    fs::create_dir_all(&directory).expect("a directory");
    fs::write(file("function.c"), function).expect("a file");
    fs::write(file("symbols"), format!("{{ global: *; local: {hidden}; }};")).expect("a file");
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-Wno-builtin-declaration-mismatch"]).arg(file("function.c"));
    command.args(["-Wl,--whole-archive", archive.trim(), "-Wl,--no-whole-archive", "-Wl,-z,muldefs", "-ltirpc"]);
    command.arg(format!("-Wl,-soname,{name}")).arg(format!("-Wl,--version-script={}", file("symbols").display()));
    am_testing::c_program::run(command.arg("-o").arg(directory.join(name)));
    directory
}

fn run(machine: &Machine, directory: &PathBuf) -> Said {
    machine.compile("all");
    let mut command = machine.with_library("all", "shm+udp");
    command.env("LD_LIBRARY_PATH", directory);
    command.env("PVM_EXPORT", "LD_PRELOAD:LD_LIBRARY_PATH:PVM_AM:PVM_AM_REPORT");
    let said = machine.run(command.args(["4", "10"]), "");
    assert!(said.is_good && said.output.contains("4 tasks, 10 rounds: all contents are right"), "{said:#?}");
    said
}

#[test]
fn a_foreign_library_is_left_alone_with_one_warning() {
    let cases = [
        (VERSION, "none", "libpvm3.so.3 is version 3.4.9, and this library knows 3.4.6"),
        (STRUCTURE, "none", "the structures of libpvm3.so.3 are not those of version 3.4.6: the length, the tag"),
        ("", "umbuf_new", "libpvm3.so.3 has no `umbuf_new`"),
    ];
    for (function, hidden, warning) in cases {
        let machine = Machine::start();
        let said = run(&machine, &make(&machine, NAME, function, hidden));
        assert_eq!((said.errors.matches(warning).count(), said.errors.lines().count()), (1, 1), "{said:#?}");
        // Of each spawned task, too.
        assert_eq!((said.log.matches(warning).count(), said.received()), (3, 0), "{said:#?}");
        let mut check = machine.with_library("all", "shm+udp");
        let said = machine.run(check.env("LD_LIBRARY_PATH", machine.path("foreign")).env("PVM_AM_CHECK", "1"), "");
        assert!(said.output.starts_with("pvm-am does not work: ") && said.output.contains(warning), "{said:#?}");
    }
}

#[test]
fn a_library_that_is_built_otherwise_and_has_the_same_structures_is_used() {
    let machine = Machine::start();
    let said = run(&machine, &make(&machine, NAME, "", "none"));
    assert!(said.received() >= 40, "{said:#?}");
}
