//! C programs, built with the header against the shared library that cargo built
//! for these tests.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longer than anything here takes when nothing is wrong.
const LONG: Duration = Duration::from_secs(120);

const STRICT: &[&str] = &["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// A program, and the directory that it is in as long as it is wanted.
pub struct Program {
    directory: TempDir,
}

/// Where cargo puts `libamfm.so`: beside the tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("this test's file");
    let directory = test.parent().expect("its directory").to_owned();
    assert!(directory.join("libamfm.so").exists(), "no libamfm.so in {}", directory.display());
    directory
}

impl Program {
    /// Compile and link, warnings being errors.
    pub fn build(source: &str) -> Program {
        let directory = tempfile::tempdir().expect("a directory");
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        // Another one where these tests are built for another processor, as by `scripts/cross`.
        let mut cc = Command::new(std::env::var("FM_CC").unwrap_or_else(|_| "cc".to_owned()));
        cc.args(STRICT).arg(root.join(source)).arg("-I").arg(root.join("include"));
        cc.arg("-L").arg(library()).args(["-lamfm", "-lpthread", "-o"]).arg(directory.path().join("program"));
        let output = cc.output().expect("cc, which scripts/setup installs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Program { directory }
    }

    /// Start it; under another program where `FM_RUNNER` names one, as `scripts/sanitize` does.
    pub fn start(&self, arguments: &[&str]) -> Running {
        let runner = std::env::var("FM_RUNNER").unwrap_or_default();
        let mut words = runner.split_whitespace().map(PathBuf::from).chain([self.directory.path().join("program")]);
        let mut command = Command::new(words.next().expect("the program at least"));
        command.args(words).args(arguments).env("LD_LIBRARY_PATH", library());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(Some(command.spawn().expect("the program starts")))
    }

    /// Run it to its end, and return what it said.
    pub fn run(&self, arguments: &[&str]) -> String {
        self.start(arguments).end()
    }
}

/// A program that runs; it ends with this at the latest.
pub struct Running(Option<Child>);

impl Running {
    /// Wait for its end, which has to be a good one. Returns what it said.
    pub fn end(mut self) -> String {
        let start = Instant::now();
        let child = self.0.as_mut().expect("it runs");
        while child.try_wait().expect("it is ours").is_none() {
            assert!(start.elapsed() < LONG, "the program does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        let Output { status, stdout, stderr } =
            self.0.take().expect("it ran").wait_with_output().expect("what it said");
        let said = String::from_utf8_lossy(&stdout).into_owned();
        assert!(status.success(), "{status}\n{said}{}", String::from_utf8_lossy(&stderr));
        said
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended by itself: then there is nothing to end.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
