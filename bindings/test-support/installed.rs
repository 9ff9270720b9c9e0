//! The library as `make install` leaves it, in a directory that a package would be made of.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::program::{Program, compiler, library, run};
use crate::{LIBRARY, PING};

/// Install what cargo built.
fn install() -> (TempDir, PathBuf) {
    let package = tempfile::tempdir().expect("a directory");
    let mut make = Command::new("make");
    make.arg("-C").arg(env!("CARGO_MANIFEST_DIR")).args(["install", "PREFIX=/opt/am"]);
    make.arg(format!("DESTDIR={}", package.path().display())).arg(format!("LIBRARY={}", library().display()));
    run(make.arg(format!("CC={}", compiler())));
    let libraries = package.path().join("opt/am/lib");
    (package, libraries)
}

fn readelf(what: &str, file: &Path) -> String {
    run(Command::new("readelf").args([what, "--wide"]).arg(file))
}

#[test]
fn a_program_builds_with_what_pkg_config_says_and_runs() {
    let (package, libraries) = install();
    let mut flags = Command::new("pkg-config");
    flags.env("PKG_CONFIG_PATH", libraries.join("pkgconfig")).env("PKG_CONFIG_SYSROOT_DIR", package.path());
    let flags = run(flags.args(["--cflags", "--libs", LIBRARY]));
    let said = Program::build_with("examples/ping.c", &libraries, &flags).start("udp", &[]).end();
    assert!(PING.iter().all(|part| said.contains(part)), "{said}");
}

/// Until 1.0 another minor version is another library: a program keeps the one that it was linked with.
#[test]
fn a_program_asks_for_the_minor_version() {
    let (_package, libraries) = install();
    let library = format!("lib{LIBRARY}.so");
    let name = format!("{library}.{}.{}", env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    let said = readelf("--dynamic", &libraries.join(&library));
    assert!(said.contains(&format!("soname: [{name}]")), "{said}");
    let to = |link: &str| libraries.join(link).read_link().expect("a link");
    let whole = format!("{library}.{}", env!("CARGO_PKG_VERSION"));
    assert_eq!((to(&library), to(&name)), (PathBuf::from(&name), whole.into()));
    let pc = libraries.join(format!("pkgconfig/{LIBRARY}.pc"));
    let version = run(Command::new("pkg-config").args(["--modversion"]).arg(pc));
    assert_eq!(version.trim(), env!("CARGO_PKG_VERSION"));
}

#[test]
fn what_is_installed_is_stripped() {
    let (_package, libraries) = install();
    let sections = readelf("--sections", &libraries.join(format!("lib{LIBRARY}.so")));
    assert!(sections.contains(".dynsym"), "{sections}");
    assert!(!sections.contains(".symtab") && !sections.contains(".debug_"), "{sections}");
    let (built, installed) = (readelf("--sections", &library()), sections.len());
    assert!(built.contains(".symtab") && built.len() > installed, "there was something to strip");
}
