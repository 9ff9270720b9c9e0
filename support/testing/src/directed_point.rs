//! Processes of a graph of Directed Point, each with its NID.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::{NamedTempFile, TempDir};

use crate::c_program::{Library, Program, Running, compiler, run};

/// A table of nodes, as a file.
pub fn table(lines: &[String]) -> NamedTempFile {
    let file = NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), lines.join("\n")).expect("it is written");
    file
}

/// A node at a free port of UDP.
pub fn udp_line(nid: usize) -> String {
    format!("{nid} udp:127.0.0.1:{}", am_netns::free_port(Ipv4Addr::LOCALHOST))
}

/// The preload library, in this directory.
pub fn preload_library(library: Library, directory: &TempDir) -> PathBuf {
    let preload = directory.path().join("libamdp_preload.so");
    let source = Path::new(library.root).join("preload/preload.c");
    let strict = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"];
    run(Command::new(compiler()).args(strict).arg(source).arg("-o").arg(&preload));
    preload
}

/// How processes find each other.
#[derive(Clone, Copy)]
pub enum Nodes<'a> {
    /// By a table of nodes.
    Table(&'a Path),
    /// By what this transport finds.
    Transport(&'a str),
}

/// Start a program as this node.
pub fn start(program: &Program, nid: usize, nodes: Nodes<'_>, arguments: &[&str]) -> Running {
    start_with(program, nid, nodes, arguments, |_| {})
}

/// The same, with more settings of the command.
pub fn start_with(
    program: &Program,
    nid: usize,
    nodes: Nodes<'_>,
    arguments: &[&str],
    set: impl FnOnce(&mut Command),
) -> Running {
    let mut command = Command::new(program.path());
    command.args(arguments).env("LD_LIBRARY_PATH", program.libraries()).env("DP_NID", nid.to_string());
    match nodes {
        Nodes::Table(path) => command.env("DP_NODES", path),
        Nodes::Transport(name) => command.env("AM_TRANSPORT", name),
    };
    set(&mut command);
    Running::of(&mut command)
}

/// `dp-graph run` with what the program's library needs.
pub fn dp_graph(library: Library, program: &Program) -> Command {
    library.beside("am-run");
    let mut command = Command::new(library.beside("dp-graph"));
    command.args(["run", "-x", &format!("LD_LIBRARY_PATH={}", program.libraries().display())]);
    command.stdin(Stdio::null());
    command
}

/// Run it to its end, which has to be a good one. Returns its standard output and its standard error.
pub fn run_to_end(command: &mut Command) -> (String, String) {
    let Output { status, stdout, stderr } = command.output().expect("it starts");
    let [output, errors] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(status.success(), "{status}\n{output}{errors}");
    (output, errors)
}
