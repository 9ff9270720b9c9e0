//! Jobs: what processes get and say. The programs are shell scripts.

use crate::job::{am_run, dp_graph, end, end_of};

fn run(options: &[&str], graph: &str, script: &str) -> (i32, String, String) {
    am_run();
    end(&mut dp_graph(&[&["run"], options, &[graph, "sh", "-c", script]].concat()))
}

#[test]
fn each_process_gets_the_graph() {
    let (code, output, errors) =
        run(&["--every", "0.5"], "ring:3", "echo $AM_RANK $AM_SIZE $DP_GRAPH $DP_GRAPH_REPORT");
    let mut lines: Vec<_> = output.lines().collect();
    lines.sort_unstable();
    assert_eq!((code, lines), (0, vec!["0 3 ring:3 500", "1 3 ring:3 500", "2 3 ring:3 500"]), "{errors}");
}

#[test]
fn the_exit_code_is_the_jobs() {
    let (code, _, errors) = run(&[], "ring:2", "exit 7");
    assert!(code == 7 && errors.contains("ended with exit code 7"), "{code}: {errors}");
    let (code, _, errors) = end(&mut dp_graph(&["run", "ring:2", "no-such-program"]));
    assert!(code == 127 && errors.contains("`no-such-program` cannot be started"), "{code}: {errors}");
    assert!(!errors.contains("messages/s"), "no process has figures: {errors}");
    assert_eq!(run(&[], "ring:2", "kill -9 $$").0, 128 + 9);
}

/// A program's own lines stay; the reports go into the table.
#[test]
fn reports_become_a_table() {
    let script = "echo before >&2; printf '\\036dp %s 2000000 1>%s.0:4000,8000000,2,7,0 0>-:0,0,0,4,0\\n' \
        $AM_RANK $((AM_RANK ^ 1)) >&2; echo after >&2";
    let (code, output, errors) = run(&["-p"], "ring:2", script);
    assert_eq!((code, &output[..]), (0, ""));
    let lines: Vec<_> = errors.lines().collect();
    assert_eq!(lines.iter().filter(|line| line.ends_with("before") || line.ends_with("after")).count(), 4, "{errors}");
    assert!(lines.contains(&"[1] after") && !errors.contains('\u{1e}'), "{errors}");
    let table = [
        "from  to   messages/s  MB/s  stalls/s  messages",
        "0:1   1:0        2000  4.00         1      4000",
        "1:1   0:0        2000  4.00         1      4000",
    ];
    assert_eq!(lines[lines.len() - 3..], table, "{errors}");
}

#[test]
fn the_live_graph_is_written_while_the_job_runs() {
    let directory = tempfile::tempdir().expect("a directory");
    let (dot, json) = (directory.path().join("live.dot"), directory.path().join("live.json"));
    let report = "printf '\\036dp %s 1000000 1>2.0:10,1000000,0,0,1\\n' $AM_RANK >&2";
    // It goes on when the file has the edge of rank 0 where it leads now.
    let script =
        format!("{report}; until grep -q '\"0\":1 -> \"2\":0 .*redirected' {}; do sleep 0.05; done", dot.display());
    let json_option = format!("--json={}", json.display());
    let options = ["--every", "0.1", "--dot", dot.to_str().expect("a text"), &json_option];
    let (code, output, errors) = run(&options, "ring:3", &script);
    assert_eq!((code, &output[..], &errors[..]), (0, "", ""), "no table");
    let text = std::fs::read_to_string(&dot).expect("the last one");
    assert!(text.contains("color=\"red\"") && text.starts_with("digraph {"), "{text}");
    let text = std::fs::read_to_string(&json).expect("lines");
    let last: serde_json::Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
    assert_eq!((&last["from"]["rank"], &last["messages"], &last["redirects"]), (&2.into(), &10.into(), &1.into()));
    assert!(text.lines().count() >= 6 && text.lines().count() % 3 == 0, "a line for each edge and interval");
}

#[test]
fn json_has_standard_output_for_itself() {
    let (code, output, errors) = run(&["--json"], "ring:2", "echo own; echo error >&2");
    assert_eq!((code, errors.matches("own").count(), errors.matches("error").count()), (0, 2, 2), "{errors}");
    assert!(output.lines().count() >= 2, "{output}");
    output.lines().for_each(|line| drop(serde_json::from_str::<serde_json::Value>(line).expect(line)));
}

#[test]
fn an_output_that_takes_nothing_ends_the_job() {
    am_run();
    let report = "printf '\\036dp %s 1000000 1>0.0:1,1,0,0,0\\n' $AM_RANK >&2";
    for (options, script, is_json) in [
        (&[][..], "echo line >&2; exec sleep 1000", false),
        (&[], report, false),
        (&["--json", "--every", "0.1"], "exec sleep 1000", true),
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let mut command = dp_graph(&[&["run"], options, &["ring:2", "sh", "-c", script]].concat());
        let (code, _, errors) = match is_json {
            true => end_of(command.stdout(full).stderr(std::process::Stdio::piped())),
            false => end_of(command.stdout(std::process::Stdio::piped()).stderr(full)),
        };
        assert!(code == 125 && errors.contains("No space left") == is_json, "{script}: {code}: {errors}");
    }
}

/// They can be opened, and take nothing.
#[test]
fn a_job_goes_on_without_files_that_cannot_be_written() {
    let options = ["--every", "0.1", "--dot", "/dev/full", "--json=/dev/full"];
    let (code, output, errors) = run(&options, "ring:2", "sleep 0.5; echo done");
    assert_eq!((code, output.matches("done").count()), (0, 2), "{errors}");
    let said = "dp-graph: /dev/full: No space left on device (os error 28); the job goes on";
    assert_eq!(errors.matches(said).count(), 1, "{errors}");
}

/// The table at the end does not need the file.
#[test]
fn a_file_that_cannot_be_written_costs_no_table() {
    let directory = tempfile::tempdir().expect("a directory");
    let dot = directory.path().join("d/live.dot");
    std::fs::create_dir(directory.path().join("d")).expect("it is made");
    let report = "printf '\\036dp %s 1000000 1>0.0:1,1,0,0,0\\n' $AM_RANK >&2";
    let script = format!("{report}; rm -r {}/d", directory.path().display());
    let (code, _, errors) = run(&["--dot", dot.to_str().expect("a text")], "ring:1", &script);
    assert!(code == 0 && errors.contains("live.dot: No such file"), "{code}: {errors}");
    assert!(errors.contains("messages/s"), "{errors}");
}
