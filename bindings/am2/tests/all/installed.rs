//! The library as `make install` leaves it, in a directory that a package would be made of.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::{Program, compiler, library, run};
use tempfile::TempDir;

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
    let flags = run(flags.args(["--cflags", "--libs", "am2"]));
    let said = Program::build_with("examples/ping.c", &libraries, &flags).start("udp", &[]).end();
    assert!(said.contains("1002 answers, 0 wrong"), "{said}");
}

/// Until 1.0 another minor version is another library: a program keeps the one that it was linked with.
#[test]
fn a_program_asks_for_the_minor_version() {
    let (_package, libraries) = install();
    let name = concat!("libam2.so.", env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));
    let said = readelf("--dynamic", &libraries.join("libam2.so"));
    assert!(said.contains(&format!("soname: [{name}]")), "{said}");
    let to = |link: &str| libraries.join(link).read_link().expect("a link");
    assert_eq!((to("libam2.so"), to(name)), (name.into(), concat!("libam2.so.", env!("CARGO_PKG_VERSION")).into()));
    let version = run(Command::new("pkg-config").args(["--modversion"]).arg(libraries.join("pkgconfig/am2.pc")));
    assert_eq!(version.trim(), env!("CARGO_PKG_VERSION"));
}

#[test]
fn what_is_installed_is_stripped() {
    let (_package, libraries) = install();
    let sections = readelf("--sections", &libraries.join("libam2.so"));
    assert!(sections.contains(".dynsym"), "{sections}");
    assert!(!sections.contains(".symtab") && !sections.contains(".debug_"), "{sections}");
    let (built, installed) = (readelf("--sections", &library()), sections.len());
    assert!(built.contains(".symtab") && built.len() > installed, "there was something to strip");
}
