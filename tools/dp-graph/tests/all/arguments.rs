//! Graphs, good and bad, and wrong arguments.

use crate::job::{dp_graph, end, end_of};

#[test]
fn a_graph_is_shown_as_dot() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_str().expect("a text");
    std::fs::write(path, "digraph { a -> b -> c; a -> c; b:7 -> a:2 }").expect("it is written");
    let (code, output, errors) = end(&mut dp_graph(&["show", path]));
    assert_eq!((code, &errors[..]), (0, ""));
    for edge in ["\"a\":1 -> \"b\":0;", "\"b\":1 -> \"c\":0;", "\"a\":2 -> \"c\":0;", "\"b\":7 -> \"a\":2;"] {
        assert!(output.contains(edge), "{output}");
    }
    // What was shown means the same.
    std::fs::write(path, &output).expect("it is written");
    assert_eq!(end(&mut dp_graph(&["show", path])).1, output);
}

#[test]
fn what_is_wrong_is_said_with_exit_code_2() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_str().expect("a text");
    std::fs::write(path, "digraph { a:x -> b }").expect("it is written");
    for (arguments, says) in [
        (&["show", path][..], "`a:x`: a port is the DPID"),
        (&["run", path, "true"], "`a:x`: a port is the DPID"),
        (&["run", "star:3", "true"], "star:3: No such file"),
        (&["run", "ring:0", "true"], "at least one vertex"),
        (&["run", "ring:2"], "PROGRAM"),
        (&["run", "--every", "0", "ring:2", "true"], "from 0.01 to 3600 seconds"),
        (&["run", "--dot", "/proc/nowhere/live.dot", "ring:2", "true"], "/proc/nowhere/live.dot"),
        (&["run", "--json=/proc/nowhere/x", "ring:2", "true"], "/proc/nowhere/x"),
        (&["run", "--wrong", "ring:2", "true"], "--wrong"),
        (&[], "Usage"),
    ] {
        let (code, _, errors) = end(&mut dp_graph(arguments));
        assert!(code == 2 && errors.contains(says), "{arguments:?}: {code}: {errors}");
    }
}

#[test]
fn what_has_no_end_is_no_graph() {
    let directory = tempfile::tempdir().expect("a directory");
    let fifo = directory.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    for (path, says) in [("/dev/zero", "more than 16 MiB"), (fifo.to_str().expect("a text"), "it is a FIFO")] {
        let (code, _, errors) = end(&mut dp_graph(&["show", path]));
        assert!(code == 2 && errors.contains(says), "{path}: {code}: {errors}");
    }
}

/// To open it would wait for a reader.
#[test]
fn a_fifo_without_a_reader_is_no_output() {
    let directory = tempfile::tempdir().expect("a directory");
    let fifo = directory.path().join("fifo").display().to_string();
    nix::unistd::mkfifo(&fifo[..], nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    for option in [format!("--json={fifo}"), format!("--dot={fifo}")] {
        let (code, _, errors) = end(&mut dp_graph(&["run", &option, "ring:2", "true"]));
        assert!(code == 2 && errors.contains("fifo: it is a FIFO without a reader"), "{option}: {code}: {errors}");
    }
}

#[test]
fn a_pipe_that_is_open_is_a_graph() {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "echo 'digraph { a -> b }' | $0 show /dev/stdin", env!("CARGO_BIN_EXE_dp-graph")]);
    let (code, output, errors) = end(&mut command);
    assert!(code == 0 && output.contains("\"a\":1 -> \"b\":0;"), "{output}{errors}");
}

#[test]
fn help_is_complete() {
    let (code, output, _) = end(&mut dp_graph(&["run", "--help"]));
    assert_eq!(code, 0);
    for option in ["--hosts", "--rsh", "--transport", "--export", "--every", "--json", "--dot", "--am-run", "Ctrl-C"] {
        assert!(output.contains(option), "{option}: {output}");
    }
}

#[test]
fn what_cannot_be_written_is_an_error() {
    for arguments in [&["show", "ring:2"][..], &["--version"], &["run", "--help"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let (code, _, errors) = end_of(dp_graph(arguments).stdout(full).stderr(std::process::Stdio::piped()));
        assert!(code == 125 && errors.contains("No space left"), "{arguments:?}: {code}: {errors}");
    }
}

/// A reader that has left needs no words.
#[test]
fn a_graph_that_nobody_reads_is_shown_without_words() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let (code, _, errors) = end_of(dp_graph(&["show", "ring:2"]).stdout(writer).stderr(std::process::Stdio::piped()));
    assert_eq!((code, &errors[..]), (125, ""));
}

#[test]
fn a_missing_launcher_is_named() {
    let (code, _, errors) = end(&mut dp_graph(&["run", "--am-run", "no-such-am-run", "ring:2", "true"]));
    assert!(code == 125 && errors.contains("`no-such-am-run` cannot be started"), "{code}: {errors}");
}

/// The kernel limits the length of a variable.
#[test]
fn a_graph_that_no_variable_holds_is_refused() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_str().expect("a text");
    let edges: String = (0..20_000).map(|k| format!("a -> b{};", k % 9)).collect();
    std::fs::write(path, format!("digraph {{ {edges} }}")).expect("it is written");
    let (code, _, errors) = end(&mut dp_graph(&["run", path, "true"]));
    assert!(code == 2 && errors.contains("a variable holds"), "{code}: {errors}");
}
