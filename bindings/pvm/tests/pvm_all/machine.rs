//! A virtual machine of one host: Debian's daemon, in a directory of its own, and programs in it.

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longer than anything here takes when nothing is wrong.
const LONG: Duration = Duration::from_secs(60);

/// A daemon, which is halted when this is dropped.
pub(crate) struct Machine {
    directory: TempDir,
    daemon: Child,
    library: PathBuf,
}

/// What became of a program.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) output: String,
    pub(crate) errors: String,
    /// What the daemon has written of the other tasks' standard error.
    pub(crate) log: String,
    /// `None` if it took too long.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) is_good: bool,
}

impl Said {
    /// How many active messages all tasks together have received, as they report. A killed task reports nothing.
    pub(crate) fn received(&self) -> u64 {
        // A task that catches the output of others prints theirs.
        let reports = [&self.errors, &self.log, &self.output].into_iter().flat_map(|text| text.lines());
        let number =
            |line: &str| line.split_once(" received as active messages")?.0.rsplit(' ').next()?.parse::<u64>().ok();
        reports.filter_map(number).sum()
    }
}

/// The library that cargo has built beside this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("this test's file");
    let library = test.parent().expect("its directory").join("libpvm_am.so");
    assert!(library.exists(), "no {}", library.display());
    library
}

impl Machine {
    pub(crate) fn start() -> Machine {
        Machine::start_as(|_| ())
    }

    /// The same, with the library in the daemon.
    pub(crate) fn start_with_library(transport: &str) -> Machine {
        Machine::start_as(|command| _ = command.env("LD_PRELOAD", library()).env("PVM_AM", transport))
    }

    fn start_as(set: impl FnOnce(&mut Command)) -> Machine {
        let directory = tempfile::Builder::new().prefix("pvm-am").tempdir().expect("a directory");
        let path = directory.path();
        let debugger = path.join("debugger");
        let hosts = format!("* ep={}:/usr/lib/pvm3/bin/LINUX64:/usr/bin bx={}\n", path.display(), debugger.display());
        fs::write(path.join("hosts"), hosts).expect("a file");
        // It runs the program, which sees that it is debugged.
        fs::write(&debugger, "#!/bin/sh\nAM_DEBUGGED=1 exec \"$@\"\n").expect("a file");
        fs::set_permissions(&debugger, Permissions::from_mode(0o755)).expect("rights");
        let mut command = Command::new("pvmd");
        command.arg("hosts").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        set(in_directory(&mut command, path));
        let mut daemon = command.spawn().expect("pvmd: scripts/setup --with-pvm");
        // It names its socket when it is ready.
        let mut line = [0; 1];
        daemon.stdout.as_mut().expect("a pipe").read_exact(&mut line).expect("the name of its socket");
        Machine { directory, daemon, library: library() }
    }

    /// Compile the program of this name into the machine's directory.
    pub(crate) fn compile(&self, name: &str) {
        self.compile_with(name, &self.path(name), &["-lpvm3"]);
    }

    /// The same with PVM in the program itself, beside the other one. Returns its file.
    pub(crate) fn compile_with_own_pvm(&self, name: &str) -> PathBuf {
        let file = self.path(&format!("{name}-own"));
        self.compile_with(name, &file, &["-l:libpvm3.a", "-ltirpc"]);
        file
    }

    /// The same with PVM's groups.
    pub(crate) fn compile_with_groups(&self, name: &str) {
        self.compile_with(name, &self.path(name), &["-lgpvm3", "-lpvm3"]);
    }

    /// The same, of a program in C++.
    pub(crate) fn compile_cpp(&self, name: &str) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/pvm_all/{name}.cpp"));
        let mut command = Command::new("c++");
        command.args(["-O1", "-g", "-Wall", "-Wextra", "-Werror"]).arg(source).arg("-o").arg(self.path(name));
        am_testing::c_program::run(command.arg("-lpvm3"));
    }

    fn compile_with(&self, name: &str, file: &Path, libraries: &[&str]) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/pvm_all/{name}.c"));
        let options = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-strict-prototypes"];
        let mut command = Command::new("cc");
        command.args(options).arg(source).arg("-o").arg(file).args(libraries);
        am_testing::c_program::run(&mut command);
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn library(&self) -> &Path {
        &self.library
    }

    /// A library that is another version: it begins its offers with another number.
    pub(crate) fn other_version(&self) -> PathBuf {
        const OWN: &[u8] = b"AM\x00\x04";
        let mut bytes = fs::read(&self.library).expect("the library");
        // In the constants or in the code.
        let places: Vec<usize> = (0..bytes.len() - OWN.len()).filter(|&at| bytes[at..].starts_with(OWN)).collect();
        assert!((1..10).contains(&places.len()), "`MARK` of agree.rs is not {OWN:?}: {places:?}");
        for at in places {
            bytes[at + OWN.len() - 1] += 1;
        }
        let other = self.path("libother.so");
        fs::write(&other, bytes).expect("a library");
        other
    }

    /// A file of the machine's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A command in this machine, without the library.
    pub(crate) fn command(&self, program: &str) -> Command {
        let own = self.path(program);
        let mut command = Command::new(if own.exists() { own } else { program.into() });
        in_directory(&mut command, self.directory.path());
        command
    }

    /// The same with the library, and in all tasks that it spawns.
    pub(crate) fn with_library(&self, program: &str, transport: &str) -> Command {
        let mut command = self.command(program);
        command.env("LD_PRELOAD", &self.library).env("PVM_AM", transport).env("PVM_AM_REPORT", "1");
        command.env("PVM_EXPORT", "LD_PRELOAD:PVM_AM:PVM_AM_REPORT");
        command
    }

    /// Run a command to its end, with this input.
    pub(crate) fn run(&self, command: &mut Command, input: &str) -> Said {
        self.run_for(command, input, LONG)
    }

    /// The same, of a command that may take this long.
    pub(crate) fn run_for(&self, command: &mut Command, input: &str, time: Duration) -> Said {
        let file = |name: &str| (File::create(self.path(name)).expect("a file"), self.path(name));
        let ((output, output_at), (errors, errors_at)) = (file("output"), file("errors"));
        let mut child = command.stdin(Stdio::piped()).stdout(output).stderr(errors).spawn().expect("a program");
        // A program may not read it.
        _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
        let status = end_of(&mut child, time);
        // The daemon hears of what other tasks say at their end a little later.
        thread::sleep(Duration::from_millis(200));
        let text = |at: &Path| String::from_utf8_lossy(&fs::read(at).unwrap_or_default()).into_owned();
        let is_good = status.is_some_and(|status| status.success());
        Said { output: text(&output_at), errors: text(&errors_at), log: self.log(), status, is_good }
    }

    /// Let the console halt it.
    pub(crate) fn halt(&self) {
        let console = self.command("pvm").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        if let Ok(mut console) = console {
            _ = console.stdin.take().expect("a pipe").write_all(b"halt\n");
            is_good(&mut console, LONG);
        }
    }

    /// Whether the daemon ends, after a task has halted the machine.
    pub(crate) fn has_ended(&mut self) -> bool {
        is_good(&mut self.daemon, LONG)
    }

    /// What the names of the files in shared memory of a machine in this directory begin with.
    pub(crate) fn name_of_links(directory: &Path) -> String {
        let file = directory.join(format!("pvmd.{}", nix::unistd::getuid()));
        let number = am_api::tag_of([file.to_string_lossy().as_ref()]) & 0xffff_ffff_ffff;
        format!("am-pvm-{number:012x}.")
    }

    /// These files.
    pub(crate) fn links(directory: &Path) -> Vec<String> {
        let (own, files) =
            (Machine::name_of_links(directory), fs::read_dir("/dev/shm").expect("shared memory").flatten());
        let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(&own)).collect()
    }

    /// The sockets in the machine's directory.
    pub(crate) fn sockets(&self) -> Vec<String> {
        let files = fs::read_dir(self.directory.path()).expect("its directory").flatten();
        let is_socket = |file: &fs::DirEntry| file.file_type().is_ok_and(|kind| kind.is_socket());
        files.filter(is_socket).map(|file| file.path().display().to_string()).collect()
    }

    /// What the daemon has written.
    fn log(&self) -> String {
        let files = fs::read_dir(self.directory.path()).expect("its directory").flatten();
        let is_log = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pvml."));
        let logs = files.map(|file| file.path()).filter(is_log);
        logs.filter_map(|path| fs::read(path).ok()).map(|text| String::from_utf8_lossy(&text).into_owned()).collect()
    }
}

/// Nothing of another machine, and this directory.
pub(crate) fn clean(command: &mut Command, directory: &Path) {
    for name in ["PVMSOCK", "PVM_VMID", "PVMEPID", "LD_PRELOAD", "PVM_EXPORT"] {
        command.env_remove(name);
    }
    command.current_dir(directory);
}

/// What a command needs to find the machine, and nothing of another one.
fn in_directory<'a>(command: &'a mut Command, directory: &Path) -> &'a mut Command {
    clean(command, directory);
    command.env("HOME", directory).env("PVM_TMP", directory);
    command.env("PVM_ROOT", "/usr/lib/pvm3").env("PVM_ALLOW_ROOT", "1")
}

fn is_good(child: &mut Child, time: Duration) -> bool {
    end_of(child, time).is_some_and(|status| status.success())
}

/// Wait for the end of a program. It is killed where that takes too long.
fn end_of(child: &mut Child, time: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + time;
    loop {
        match child.try_wait().expect("a child") {
            Some(status) => return Some(status),
            None if Instant::now() > end => {
                _ = child.kill();
                _ = child.wait();
                return None;
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Halts the machine: its daemon ends, and with it every task.
impl Drop for Machine {
    fn drop(&mut self) {
        // Without a daemon the console would start one.
        if matches!(self.daemon.try_wait(), Ok(None)) {
            self.halt();
        }
        is_good(&mut self.daemon, LONG);
    }
}
