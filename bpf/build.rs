//! Compiles the kernel's programs. It needs clang and nothing else.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: [&str; 3] = ["steer", "share", "raw"];
const HEADERS: [&str; 8] =
    ["kernel.h", "wire.h", "bounce.h", "decide.h", "gate.h", "sequence.h", "copies.h", "usual.h"];

/// `v3`: 32-bit comparisons, known to every kernel that has what we need.
const FLAGS: &str = "-O2 -g -mcpu=v3 -Wall -Wextra -Werror -target bpf";

fn main() {
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    // The tests build other versions of the programs in the same way.
    println!("cargo::rustc-env=BPF_CLANG={clang}");
    println!("cargo::rustc-env=BPF_FLAGS={FLAGS}");
    for header in HEADERS {
        println!("cargo::rerun-if-changed={header}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    for program in PROGRAMS {
        let source = format!("{program}.bpf.c");
        println!("cargo::rerun-if-changed={source}");
        if let Err(message) = compile(&clang, &source, &out.join(format!("{program}.o"))) {
            // A panic fails the build with a better message than an exit code.
            println!("cargo::error={message}");
            return;
        }
    }
}

fn compile(clang: &str, source: &str, object: &Path) -> Result<(), String> {
    let output =
        Command::new(clang).args(FLAGS.split(' ')).args(["-c", source, "-o"]).arg(object).output().map_err(
            |error| format!("`{clang}` does not run ({error}): run `scripts/setup` or `apt-get install clang`"),
        )?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("No available targets are compatible") || said.contains("unknown target triple") {
        return Err(format!("`{clang}` cannot compile for BPF: run `scripts/setup` or `apt-get install clang`"));
    }
    Err(format!("`{clang}` does not compile bpf/{source}: {}", said.trim().replace('\n', " | ")))
}
