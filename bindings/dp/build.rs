//! What the linker is told of `libamdp.so`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Until 1.0 a program needs the minor version it was linked with. The Makefile installs links of this name.
    let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libamdp.so.{major}.{minor}");
    // The release has line tables for profilers, which are most of its size; who installs a library wants none.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--strip-all");
    }
}
