//! The examples as programs of their own.

use std::path::Path;
use std::process::{Child, Command};
use std::{env, process};

/// An example, where cargo has put it beside this test.
pub fn example(name: &str) -> Command {
    let mut path = env::current_exe().expect("a path");
    path.pop();
    path.pop();
    let path = path.join("examples").join(name);
    assert!(path.exists(), "{} is not there: cargo build -p active-messages --example {name}", path.display());
    Command::new(path)
}

/// One that runs until this is dropped.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        _ = (self.0.kill(), self.0.wait());
    }
}

/// An address of this process's own on the loopback network.
pub fn local(host: u8) -> String {
    let [low, high] = (process::id() as u16).to_be_bytes();
    format!("127.{high}.{low}.{host}:7000")
}

/// Copy a program to a place where other users may run it. Another process copies it: as long as this one had it open to write, a child
/// that another thread starts would have it open, too, and the kernel would not run it.
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let copied = Command::new("cp").arg(from.as_ref()).arg(to.as_ref()).status();
    assert!(copied.expect("cp").success(), "no copy of {}", from.as_ref().display());
}
