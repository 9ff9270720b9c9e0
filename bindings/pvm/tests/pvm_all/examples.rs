//! Debian's programs of PVM say the same with the library and without it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::machine::{Machine, Said};

/// A program, and what it is started with.
struct Example {
    name: &'static str,
    arguments: &'static [&'static str],
    input: &'static str,
    /// Whether it says times, which differ from run to run.
    says_times: bool,
}

/// The active messages of all programs together, at least. How many one has depends on when its tasks agree.
const AT_LEAST: u64 = 1500;

const fn plain(name: &'static str) -> Example {
    Example { name, arguments: &[], input: "", says_times: false }
}

const fn of(name: &'static str, arguments: &'static [&'static str]) -> Example {
    Example { arguments, ..plain(name) }
}

const fn asks(name: &'static str, input: &'static str) -> Example {
    Example { input, ..plain(name) }
}

const fn script(script: &'static Script) -> Example {
    of("sh", script)
}

/// What a shell is started with.
type Script = [&'static str; 2];

/// Two programs that find each other in a group, whose server the first one starts.
macro_rules! pair {
    ($name:literal) => {
        &[
            "-c",
            concat!(
                "stdbuf -oL ",
                $name,
                " >a & until grep -q myinst a; do sleep 0.05; done; ",
                $name,
                " >b; wait; cat a b"
            ),
        ]
    };
}

/// A service that two tasks ask, and that a third one ends.
const SERVICE: &Script = &[
    "-c",
    "stdbuf -oL task0 greeter >a & until grep -q inserted a; do sleep 0.05; done
    task1 greeter 0 d; task1 greeter 0 d; task_end greeter 0; wait; cat a",
];

/// Mailboxes that outlive their task, are listed, and are removed.
const MAILBOXES: &Script =
    &["-c", "lmbi 3 mp e >a; gmbi; name=$(sed -n 's/.*entry <\\(.*0\\)>.*/\\1/p' a); rme $name 0; gmbi; cat a"];

/// Handlers of a server are added, called and removed, and the server leaves PVM and comes back. It is stopped while the messages arrive that
/// add handlers and those for them.
const HANDLERS: &Script = &[
    "-c",
    "until_server() { until [ $(grep -c 'just inserted' server) = $1 ]; do sleep 0.05; done; }
    stdbuf -oL mhf_server >server & server=$!; until_server 1
    { printf '0\\n'; sleep 0.3; kill -STOP $server
      printf '1\\n77\\n5\\n1\\n1\\n78\\n6\\n6\\n4\\n77\\n5\\n1\\nhello\\n4\\n78\\n6\\n6\\n4711\\n'; sleep 0.3
      kill -CONT $server; printf '3\\n'
      until_server 2
      printf '\\n0\\n2\\n3\\n9\\n'; } | stdbuf -oL mhf_tickle
    wait; cat server",
];

/// Tasks whose lines the console prints, until the last one has ended.
const CONSOLE: &Script = &[
    "-c",
    "mkfifo in; stdbuf -oL pvm <in >a & exec 3>in; echo 'spawn -4 -> fspmd' >&3; until grep -q finished a; do sleep 0.05; done; exec 3>&-; wait; cat a",
];

/// Not here: `xep` with its tasks `mtile`, which need an X server (on one, its picture was the same with the library and without it, and
/// `descriptors.c` waits as it does); `tnb`, a task that `thb` starts and that waits for ever without it; and the tasks of the others.
///
/// Programs of PVM's sources that no package has were built and run once with the library and without it, and said the same:
///
/// - `hoster`, which started the daemon of the second host of `scripts/pvm-hosts --add`; `misc/xhoster` did, too, on an X server.
/// - `tasker`, which started the tasks of `master1` and `timing` in the daemon's place.
/// - `misc/pvm_fork.c`, a function: the forked child became a task of its own, and the two had 170 of 200 answers as active messages.
/// - `tracer`, of `spmd` started by the console: events of the same kinds, in the same number.
/// - `xpvm`, on an X server: it became a task, and printed the same. It starts tasks by clicks only, so none was started.
///
/// `xdr` is a library for Windows, `shmd` a part of PVM for shared memory with a daemon that Debian does not build, and `misc/group-hack-337` a patch.
/// There are no directories `mbox`, `ptest` and `starter`: those are sources of the package's examples, see `SOURCES`.
const EXAMPLES: &[Example] = &[
    plain("hello.pvm"),
    plain("master1"),
    plain("spmd"),
    Example { says_times: true, ..of("timing", &[]) },
    asks("gexample", "100\n4\n"),
    of("ge", &["4"]),
    of("gs.pvm", &["4"]),
    of("gexamp", &["4"]),
    of("thb", &["4"]),
    of("joinleave", &["1000"]),
    of("tjf", &[]),
    of("tjl", &[]),
    plain("tst"),
    asks("trsg", "4\n10\n"),
    of("inherita", &["inherit1"]),
    of("inherita", &["inherit3"]),
    script(SERVICE),
    script(MAILBOXES),
    script(HANDLERS),
    Example { says_times: true, ..script(pair!("dbwtest")) },
    Example { says_times: true, ..script(pair!("ibwtest")) },
    Example { says_times: true, ..script(pair!("pbwtest")) },
    Example { says_times: true, ..script(pair!("rbwtest")) },
    // These are Fortran's.
    asks("fmaster1", "4\n"),
    asks("fgexample", "100\n4\n"),
    plain("fspmd"),
    script(CONSOLE),
    plain("hitc"),
    asks("frsg", "4\n10\n"),
];

/// Programs of which the package has the source only. `starter` spawns and catches the output of `ptest`, whose tasks send arrays in a group.
const SOURCES: [&str; 3] = ["mbox", "ptest", "starter"];

/// Where it has them, unless the system installs no documentation.
const ARCHIVE: &str = "/usr/share/doc/pvm-examples/examples.tar.gz";

/// Mailboxes of several owners: read, listed, waited for, and those that may not be overwritten or deleted.
const MAILBOX_FLAGS: &Script = &[
    "-c",
    "m() { ./mbox \"$@\"; echo \"$? $*\"; }; m; m query; m pers; m minst pers; m pers owrit; m favail minst pers; m query; m info
    m rddel query 0; m delete 0; m noexit; m querynoreset; m query 3 wait & m minst pers; wait",
];

const OF_SOURCES: [Example; 6] = [
    of("starter", &["-n", "4", "ptest", "4", "0", "40"]),
    of("starter", &["-n", "3", "hello_other"]),
    script(MAILBOX_FLAGS),
    of("mbox", &["default"]),
    of("mbox", &["default33"]),
    of("mbox", &["direct"]),
];

/// What a program has said, without what differs from run to run: the numbers of tasks, the order of lines, and times.
fn settled(said: &Said, says_times: bool) -> Vec<String> {
    let is_task = |word: &str| {
        let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix('t')).unwrap_or(word);
        let number = i64::from_str_radix(digits, 16).unwrap_or(0);
        // In hexadecimal digits or in decimal ones.
        (0x40001..0x40100).contains(&number) || digits.parse::<i64>().is_ok_and(|n| (0x40001..0x40100).contains(&n))
    };
    let word = |word: &str| match word.trim_matches(|c: char| !c.is_ascii_alphanumeric()) {
        bare if is_task(bare) => "TASK".to_owned(),
        bare if says_times && bare.parse::<f64>().is_ok() => "TIME".to_owned(),
        _ => word.to_owned(),
    };
    let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    // The console prints what a task reports, too.
    let own = said.output.lines().filter(|line| !line.contains("pvm-am: "));
    let mut lines: Vec<String> = own.map(line).collect();
    lines.sort();
    lines
}

fn run(example: &Example, with_library: bool, prepare: fn(&Machine)) -> Said {
    let machine = Machine::start();
    prepare(&machine);
    let mut command = match with_library {
        true => machine.with_library(example.name, "shm+udp"),
        false => machine.command(example.name),
    };
    machine.run(command.args(example.arguments), example.input)
}

/// Run them, without the library and with it. Returns how many active messages there were.
fn compare(examples: &[Example], prepare: fn(&Machine)) -> u64 {
    let mut received = 0;
    let differing: Vec<String> = examples
        .iter()
        .filter_map(|example| {
            let without = run(example, false, prepare);
            let with = run(example, true, prepare);
            let same = settled(&without, example.says_times) == settled(&with, example.says_times);
            let is_same = same && without.status.is_some() && without.status == with.status;
            let result = if is_same { "same" } else { "DIFFERS" };
            println!("{result}, {} active messages: {} {}", with.received(), example.name, example.arguments.join(" "));
            received += with.received();
            (!is_same).then(|| format!("{} {:?}: {without:#?}\n{with:#?}", example.name, example.arguments))
        })
        .collect();
    assert!(differing.is_empty(), "{}", differing.join("\n\n"));
    received
}

#[test]
fn each_says_the_same_with_the_library() {
    let received = compare(EXAMPLES, |_| ());
    assert!(received >= AT_LEAST, "{received} active messages");
}

/// Build those of `SOURCES` in the machine's directory.
fn build(machine: &Machine) {
    let file = |name: &str| format!("examples/{name}.c");
    let mut unpack = Command::new("tar");
    unpack.args(["-xzf", ARCHIVE, "-C"]).arg(machine.directory());
    am_testing::c_program::run(unpack.args(SOURCES.map(file)));
    for name in SOURCES {
        let source = machine.path(&file(name));
        // An `exit` without its argument, which compilers refuse today.
        let text = fs::read_to_string(&source).expect("a source").replace(" exit();", " exit(1);");
        fs::write(&source, text).expect("a source");
        let mut command = Command::new("cc");
        command.args(["-std=gnu89", "-w", "-DHASSTDLIB", "-DSYSVSTR"]).arg(source);
        am_testing::c_program::run(command.arg("-o").arg(machine.path(name)).args(["-lgpvm3", "-lpvm3"]));
    }
}

#[test]
fn each_of_the_sources_says_the_same_with_the_library() {
    if !Path::new(ARCHIVE).exists() {
        println!("not run: there is no {ARCHIVE}");
        return;
    }
    let received = compare(&OF_SOURCES, build);
    assert!(received >= 50, "{received} active messages");
}
