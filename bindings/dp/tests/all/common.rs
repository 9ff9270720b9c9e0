//! Processes of a graph, each with its NID.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::{NamedTempFile, TempDir};

use crate::program::{Program, Running, compiler, run};

/// A table of nodes, as a file.
pub(crate) fn table(lines: &[String]) -> NamedTempFile {
    let file = NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), lines.join("\n")).expect("it is written");
    file
}

/// A free port of UDP.
pub(crate) fn udp_line(nid: usize) -> String {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    format!("{nid} udp:{}", socket.local_addr().expect("it is bound"))
}

/// The preload library, in this directory.
pub(crate) fn preload_library(directory: &TempDir) -> PathBuf {
    let library = directory.path().join("libamdp_preload.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("preload/preload.c");
    let strict = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"];
    run(Command::new(compiler()).args(strict).arg(source).arg("-o").arg(&library));
    library
}

/// How processes find each other.
#[derive(Clone, Copy)]
pub(crate) enum Nodes<'a> {
    Table(&'a Path),
    Transport(&'a str),
}

/// Start a program as this node.
pub(crate) fn start(program: &Program, nid: usize, nodes: Nodes<'_>, arguments: &[&str]) -> Running {
    start_with(program, nid, nodes, arguments, |_| {})
}

pub(crate) fn start_with(
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
