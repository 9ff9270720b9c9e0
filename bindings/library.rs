// The linker options of a shared library for C programs. A binding's build.rs names LIBRARY, as in `libLIBRARY.so`, and includes
// this file.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../library.rs");
    println!("cargo::rerun-if-changed=../thread_end.c");
    // Until 1.0 a program needs the minor version it was linked with. The Makefile installs links of this name.
    let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,lib{LIBRARY}.so.{major}.{minor}");
    // The release has line tables for profilers, which are most of its size. An installed library needs none.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--strip-all");
    }
}
