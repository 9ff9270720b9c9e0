//! Compiles what only C can do at the end of a thread.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/thread_end.c");
    // A C++ exception passes through it.
    cc::Build::new()
        .file("src/thread_end.c")
        .flag("-fasynchronous-unwind-tables")
        .warnings_into_errors(true)
        .compile("thread_end");
}
