//! What `pvm-am` refuses before anything runs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{fs, str};

use tempfile::TempDir;

/// A program that leaves a file where it runs.
const PROGRAM: &str = r#"#include <fcntl.h>
int main(void) { return creat("has-run", 0600) < 0; }"#;

/// What has the symbol of the library, and loads nothing.
const LIBRARY: &str = "char PVM_AM_LIBRARY = 1;";

/// A directory for the files of a test.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a directory"))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn compile(&self, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let (text, file) = (self.at("text.c"), self.at(name));
        fs::write(&text, source).expect("a file");
        let done = Command::new("cc").arg(text).arg("-o").arg(&file).args(options).status().expect("a compiler");
        assert!(done.success(), "{name}");
        file
    }

    /// Run `pvm-am` with these arguments.
    fn run(&self, arguments: &[&str], library: &Path, program: &Path) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pvm-am"));
        command.args(arguments).arg("--library").arg(library).arg(program).current_dir(self.0.path());
        command.env_remove("PVM_AM").env_remove("LD_PRELOAD").output().expect("pvm-am")
    }

    fn has_run(&self) -> bool {
        self.at("has-run").exists()
    }
}

fn check(output: &Output, code: i32, part: &str) {
    let text = [&output.stdout[..], &output.stderr].concat();
    let text = str::from_utf8(&text).expect("text");
    assert!(output.status.code() == Some(code) && text.contains(part), "{code}, `{part}`: {output:?}");
}

#[test]
fn a_program_that_is_linked_statically_is_asked_nothing() {
    let place = Place::new();
    let library = place.compile("library.so", LIBRARY, &["-shared", "-fPIC"]);
    for (name, option) in [("static", "-static"), ("pie", "-static-pie")] {
        let program = place.compile(name, PROGRAM, &[option]);
        check(&place.run(&["check"], &library, &program), 1, "is linked statically: link it with libpvm3.so.3");
        assert!(!place.has_run(), "{name}");
        // To run it is possible, and of no use.
        check(&place.run(&["run"], &library, &program), 0, "is linked statically");
        assert!(place.has_run(), "{name}");
        fs::remove_file(place.at("has-run")).expect("a file");
    }
}

#[test]
fn another_library_is_never_loaded() {
    let place = Place::new();
    let program = place.compile("program", PROGRAM, &[]);
    let users = place.compile(
        "user.so",
        "extern char PVM_AM_LIBRARY; char *own(void) { return &PVM_AM_LIBRARY; }",
        &["-shared", "-fPIC"],
    );
    // One that has PVM's names, one that only uses the library's symbol, and a text.
    let pvms = place.compile("pvm.so", "int mroute(void) { return 0; }", &["-shared", "-fPIC"]);
    for library in [&pvms, &users, &place.at("text.c")] {
        for command in ["check", "run"] {
            check(&place.run(&[command], library, &program), 125, "this is not libpvm_am.so");
        }
    }
    assert!(!place.has_run());
}

#[test]
fn names_that_no_library_reads_end_it_before_the_program() {
    let place = Place::new();
    let library = place.compile("library.so", LIBRARY, &["-shared", "-fPIC"]);
    let program = place.compile("program", PROGRAM, &[]);
    for names in ["bogus", "UDP", "shm udp", "shm:", "shm+"] {
        let output = place.run(&["run", "--transport", names], &library, &program);
        check(&output, 125, "names no transport: write `shm`, `udp` or `tcp`, or ");
        let mut command = Command::new(env!("CARGO_BIN_EXE_pvm-am"));
        command.arg("run").arg("--library").arg(&library).arg(&program).current_dir(place.0.path());
        check(&command.env("PVM_AM", names).output().expect("pvm-am"), 125, "PVM_AM: `");
    }
    assert!(!place.has_run());
    check(&place.run(&["run", "--transport", "shm+tcp"], &library, &program), 0, "");
    assert!(place.has_run());
}

#[test]
fn a_report_of_a_program_without_pvm_is_announced_as_none() {
    let place = Place::new();
    let library = place.compile("library.so", LIBRARY, &["-shared", "-fPIC"]);
    let program = place.compile("program", PROGRAM, &[]);
    check(&place.run(&["run", "--report"], &library, &program), 0, "does not name libpvm3.so.3");
    assert_eq!(place.run(&["run"], &library, &program).stderr, b"");
}
