//! The library as `make install` leaves it, in a directory that a package would be made of.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::c_program::{Library, compiler, run};

/// Install what cargo built.
fn install(library: Library) -> (TempDir, PathBuf) {
    let package = tempfile::tempdir().expect("a directory");
    let mut make = Command::new("make");
    make.arg("-C").arg(library.root).args(["install", "PREFIX=/opt/am"]);
    make.arg(format!("DESTDIR={}", package.path().display())).arg(format!("LIBRARY={}", library.path().display()));
    run(make.arg(format!("CC={}", compiler())));
    let libraries = package.path().join("opt/am/lib");
    (package, libraries)
}

/// Install without a package, where the loader does not look.
fn install_elsewhere(library: Library) -> (TempDir, String) {
    let place = tempfile::tempdir().expect("a directory");
    let mut make = Command::new("make");
    make.arg("-C").arg(library.root).arg("install").arg(format!("PREFIX={}", place.path().display()));
    make.arg(format!("LIBRARY={}", library.path().display())).arg(format!("CC={}", compiler()));
    let said = run(make.env_remove("DESTDIR"));
    (place, said)
}

fn readelf(what: &str, file: &Path) -> String {
    run(Command::new("readelf").args([what, "--wide"]).arg(file))
}

/// A program builds with what `pkg-config` says, and says each of `parts`.
pub fn a_program_builds_with_what_pkg_config_says_and_runs(library: Library, parts: &[&str]) {
    let (package, libraries) = install(library);
    let mut flags = Command::new("pkg-config");
    flags.env("PKG_CONFIG_PATH", libraries.join("pkgconfig")).env("PKG_CONFIG_SYSROOT_DIR", package.path());
    let flags = run(flags.args(["--cflags", "--libs", library.name]));
    let said = library.build_with("examples/ping.c", &libraries, &flags).start("udp", &[]).end();
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
}

/// Until 1.0 another minor version is another library: a program keeps the one that it was linked with.
pub fn a_program_asks_for_the_minor_version(library: Library) {
    let (_package, libraries) = install(library);
    let file = format!("lib{}.so", library.name);
    let name = format!("{file}.{}.{}", env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    let said = readelf("--dynamic", &libraries.join(&file));
    assert!(said.contains(&format!("soname: [{name}]")), "{said}");
    let to = |link: &str| libraries.join(link).read_link().expect("a link");
    let whole = format!("{file}.{}", env!("CARGO_PKG_VERSION"));
    assert_eq!((to(&file), to(&name)), (PathBuf::from(&name), whole.into()));
    let pc = libraries.join(format!("pkgconfig/{}.pc", library.name));
    let version = run(Command::new("pkg-config").args(["--modversion"]).arg(pc));
    assert_eq!(version.trim(), env!("CARGO_PKG_VERSION"));
}

/// The installed library has the symbols of its interface alone.
pub fn what_is_installed_is_stripped(library: Library) {
    let (_package, libraries) = install(library);
    let sections = readelf("--sections", &libraries.join(format!("lib{}.so", library.name)));
    assert!(sections.contains(".dynsym"), "{sections}");
    assert!(!sections.contains(".symtab") && !sections.contains(".debug_"), "{sections}");
    let (built, installed) = (readelf("--sections", &library.path()), sections.len());
    assert!(built.contains(".symtab") && built.len() > installed, "there was something to strip");
}

/// It says what a program needs.
pub fn a_place_where_the_loader_does_not_look_is_named(library: Library) {
    let (place, said) = install_elsewhere(library);
    let libraries = place.path().join("lib");
    let advice = format!("run programs with LD_LIBRARY_PATH={}, or link them with -Wl,-rpath,", libraries.display());
    assert!(libraries.join(format!("lib{}.so", library.name)).exists() && said.contains(&advice), "{said}");
}

/// The tests of what a binding installs: of this library, whose example says each of these parts.
#[macro_export]
macro_rules! test_installed {
    ($library:expr, $parts:expr) => {
        mod installed {
            #[test]
            fn a_program_builds_with_what_pkg_config_says_and_runs() {
                $crate::installed::a_program_builds_with_what_pkg_config_says_and_runs($library, $parts);
            }

            #[test]
            fn a_place_where_the_loader_does_not_look_is_named() {
                $crate::installed::a_place_where_the_loader_does_not_look_is_named($library);
            }

            #[test]
            fn a_program_asks_for_the_minor_version() {
                $crate::installed::a_program_asks_for_the_minor_version($library);
            }

            #[test]
            fn what_is_installed_is_stripped() {
                $crate::installed::what_is_installed_is_stripped($library);
            }
        }
    };
}
