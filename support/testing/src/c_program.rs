//! C programs, built with the header against the shared library that cargo built for the tests of a binding.

use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longer than anything here takes when nothing is wrong.
const LONG: Duration = Duration::from_secs(120);

const STRICT: &[&str] = &["-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror"];

const EVERY_WARNING: &[&str] = &["-Wall", "-Wextra", "-pedantic-errors", "-Wconversion", "-Werror"];

/// Each compiler with the languages that it has, and their versions.
fn languages() -> Vec<(String, &'static str, &'static str)> {
    let (mut c, mut cpp) = (vec![compiler()], vec![cpp_compiler()]);
    if std::env::var("C_TESTS_CC").is_err() {
        c.push("clang".to_owned());
        cpp.push("clang++".to_owned());
    }
    let in_c = c.iter().flat_map(|cc| ["c99", "c11", "c17", "c2x"].map(|version| (cc.clone(), "c", version)));
    let versions = ["c++11", "c++14", "c++17", "c++20", "c++2b"];
    let in_cpp = cpp.iter().flat_map(|cc| versions.map(|version| (cc.clone(), "c++", version)));
    in_c.chain(in_cpp).collect()
}

/// A program, and the directory that it is in as long as it is wanted.
pub struct Program {
    directory: TempDir,
    /// Where its library is, if not there.
    libraries: Option<PathBuf>,
}

/// The library of a binding.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// As in `libNAME.so`.
    pub name: &'static str,
    /// The binding's directory.
    pub root: &'static str,
}

/// The C compiler: another one where these tests are built for another processor, as by `scripts/cross`.
pub fn compiler() -> String {
    std::env::var("C_TESTS_CC").unwrap_or_else(|_| "cc".to_owned())
}

/// The C++ compiler beside it.
fn cpp_compiler() -> String {
    match compiler().strip_suffix("gcc") {
        Some(tools) => format!("{tools}g++"),
        None => "c++".to_owned(),
    }
}

/// Run this to its end, which has to be a good one. Returns what it said.
pub fn run(command: &mut Command) -> String {
    let output = command.output().expect("a program that scripts/setup installs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Library {
    /// What cargo built, beside the tests.
    pub fn path(self) -> PathBuf {
        let test = std::env::current_exe().expect("this test's file");
        let library = test.parent().expect("its directory").join(format!("lib{}.so", self.name));
        assert!(library.exists(), "no {}", library.display());
        library
    }

    /// A program of another package, beside the library.
    pub fn beside(self, name: &str) -> PathBuf {
        let program = self.path().ancestors().nth(2).expect("cargo's directory").join(name);
        assert!(program.exists(), "no {}: cargo build -p {name}", program.display());
        program
    }

    /// Compile C, or C++ where the name ends with `.cc`, and link with what cargo built, warnings being errors.
    pub fn build(self, source: &str) -> Program {
        let program = Program { directory: tempfile::tempdir().expect("a directory"), libraries: None };
        let at = program.directory.path();
        // The loader looks for the name that the library says that it has.
        let said = run(Command::new("readelf").arg("-d").arg(self.path()));
        let (_, name) = said.split_once("(SONAME)").expect("a library that says its name");
        let name = name.split(['[', ']']).nth(1).expect("its name");
        for name in [&format!("lib{}.so", self.name), name] {
            symlink(self.path(), at.join(name)).expect("a link");
        }
        let include = format!("-I{}/include", self.root);
        self.compile(&program, source, &[include, format!("-L{}", at.display()), format!("-l{}", self.name)]);
        program
    }

    /// The same with what is installed there, with the flags for it.
    pub fn build_with(self, source: &str, libraries: &Path, flags: &str) -> Program {
        let flags: Vec<String> = flags.split_whitespace().map(ToOwned::to_owned).collect();
        let libraries = Some(libraries.to_owned());
        let program = Program { directory: tempfile::tempdir().expect("a directory"), libraries };
        self.compile(&program, source, &flags);
        program
    }

    fn compile(self, program: &Program, source: &str, flags: &[String]) {
        let is_cpp = source.ends_with(".cc");
        let (compiler, standard) = if is_cpp { (cpp_compiler(), "-std=c++11") } else { (compiler(), "-std=c11") };
        let mut cc = Command::new(compiler);
        cc.arg(standard).args(STRICT).arg(Path::new(self.root).join(source)).args(flags).arg("-lpthread");
        run(cc.arg("-o").arg(program.path()));
    }

    /// Compile each header alone, and this program, in each version of C and C++ by each compiler, with all warnings as errors. Returns
    /// what the program says when it runs, with the language.
    pub fn in_each_language(self, source: &str, transport: &str) -> Vec<(String, String)> {
        let program = self.build(source);
        let (include, at) = (format!("-I{}/include", self.root), program.directory.path().to_owned());
        let source = Path::new(self.root).join(source);
        let mut said = vec![];
        for (compiler, language, standard) in languages() {
            let compile = |what: &Path| {
                let mut cc = Command::new(&compiler);
                cc.arg(format!("-std={standard}")).args(EVERY_WARNING).arg(&include).args(["-x", language]).arg(what);
                if language == "c++" {
                    cc.arg("-Wold-style-cast");
                }
                cc
            };
            for header in std::fs::read_dir(Path::new(self.root).join("include")).expect("its headers") {
                let alone = at.join("alone");
                let name = header.expect("a header").file_name();
                // C++ programs include headers of C within `extern "C"`, too.
                let [begin, end] = if language == "c++" { ["extern \"C\" {", "}"] } else { ["", ""] };
                for [begin, end] in [["", ""], [begin, end]] {
                    let text = format!("{begin}\n#include <{}>\n{end}\nint is_here;\n", name.display());
                    std::fs::write(&alone, text).expect("a file");
                    run(compile(&alone).arg("-fsyntax-only"));
                }
            }
            let (link, library) = (format!("-L{}", at.display()), format!("-l{}", self.name));
            run(compile(&source).args(["-x", "none", &link, &library, "-lpthread", "-o"]).arg(program.path()));
            said.push((format!("{compiler} {standard}"), program.start(transport, &[]).end()));
        }
        said
    }
}

impl Program {
    /// Start it on a transport; under another program where `C_TESTS_RUNNER` names one, as `scripts/sanitize` does.
    pub fn start(&self, transport: &str, arguments: &[&str]) -> Running {
        let runner = std::env::var("C_TESTS_RUNNER").unwrap_or_default();
        let mut words = runner.split_whitespace().map(PathBuf::from).chain([self.path()]);
        let mut command = Command::new(words.next().expect("the program at least"));
        command.args(words).args(arguments).env("AM_TRANSPORT", transport).env("LD_LIBRARY_PATH", self.libraries());
        Running::of(&mut command)
    }

    /// The program.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("program")
    }

    /// Where its library is.
    pub fn libraries(&self) -> &Path {
        self.libraries.as_deref().unwrap_or(self.directory.path())
    }

    /// Run two processes that pass each other their names: 0, which asks, on the first transport, and 1. Returns what 0 said after
    /// its name.
    pub fn run_two(&self, transports: [&str; 2]) -> String {
        self.run_two_with(transports, &[])
    }

    /// The same, with more arguments for both.
    pub fn run_two_with(&self, transports: [&str; 2], more: &[&str]) -> String {
        let mut both = [0, 1].map(|at| self.start(transports[at], &[&[at.to_string().as_str()], more].concat()));
        let [first, second] = both.each_mut().map(Running::line);
        both[0].write(&second);
        both[1].write(&first);
        let [first, second] = both;
        let said = first.end();
        second.end();
        said
    }
}

/// A program that runs; it ends with this at the latest.
pub struct Running(Option<Child>);

impl Running {
    /// Start this.
    pub fn of(command: &mut Command) -> Running {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(Some(command.spawn().expect("the program starts")))
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        let mut child = self.0.take().expect("it runs");
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
    }

    /// The next line that it says.
    pub fn line(&mut self) -> String {
        let stdout = self.0.as_mut().expect("it runs").stdout.as_mut().expect("a pipe");
        let mut line = vec![];
        let mut byte = [0];
        while stdout.read(&mut byte).expect("it speaks") == 1 && byte != *b"\n" {
            line.push(byte[0]);
        }
        String::from_utf8(line).expect("a text")
    }

    /// Tell it this and no more.
    pub fn write(&mut self, text: &str) {
        let mut stdin = self.0.as_mut().expect("it runs").stdin.take().expect("a pipe");
        // If it has ended, its end says why.
        _ = stdin.write_all(text.as_bytes());
    }

    /// Wait for its end, which has to be a bad one. Returns its exit code and what it said on standard error.
    pub fn fail(&mut self) -> (Option<i32>, String) {
        let output = self.0.take().expect("it runs").wait_with_output().expect("what it said");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

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

/// The numbers that a header gives to names with this beginning, in its order. The names are without it and without underscores.
pub fn numbers_in_header(header: &str, beginning: &str) -> Vec<(String, i32)> {
    let mut numbers = vec![];
    for line in header.lines().filter(|line| line.trim_start().starts_with(beginning) && line.contains('=')) {
        let (name, rest) = line.trim().split_once(" = ").expect("a name and a number");
        let number = rest.split([',', ' ']).next().expect("a number");
        let name = name.trim_start_matches(beginning).replace('_', "");
        numbers.push((name, number.parse().expect("a number")));
    }
    numbers
}
