//! Debian's programs of PVM say the same with the library and without it.

use std::thread;

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

/// Handlers of a server are added, called and removed, and the server leaves PVM and comes back.
const HANDLERS: &Script = &[
    "-c",
    "until_server() { until [ $(grep -c 'just inserted' server) = $1 ]; do sleep 0.05; done; }
    stdbuf -oL mhf_server >server & until_server 1
    { printf '0\\n1\\n77\\n5\\n1\\n1\\n78\\n6\\n6\\n4\\n77\\n5\\n1\\nhello\\n4\\n78\\n6\\n6\\n4711\\n3\\n'
      until_server 2
      printf '\\n0\\n2\\n3\\n9\\n'; } | mhf_tickle
    wait; cat server",
];

/// Tasks whose lines the console prints, until the last one has ended.
const CONSOLE: &Script = &[
    "-c",
    "mkfifo in; stdbuf -oL pvm <in >a & exec 3>in; echo 'spawn -4 -> fspmd' >&3; until grep -q finished a; do sleep 0.05; done; exec 3>&-; wait; cat a",
];

/// Not here: `xep` with its tasks `mtile`, which need an X server (on one, its picture was the same with the library and without it, and
/// `descriptors.c` waits as it does); `tnb`, a task that `thb` starts and that waits for ever without it; and the tasks of the others.
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

fn run(example: &Example, with_library: bool) -> Said {
    let machine = Machine::start();
    let mut command = match with_library {
        true => machine.with_library(example.name, "shm+udp"),
        false => machine.command(example.name),
    };
    machine.run(command.args(example.arguments), example.input)
}

#[test]
fn each_says_the_same_with_the_library() {
    let mut received = 0;
    let differing: Vec<String> = EXAMPLES
        .iter()
        .filter_map(|example| {
            let (without, with) = thread::scope(|scope| {
                let without = scope.spawn(|| run(example, false));
                (without.join().expect("a run"), run(example, true))
            });
            let same = settled(&without, example.says_times) == settled(&with, example.says_times);
            let is_same = same && without.status.is_some() && without.status == with.status;
            let result = if is_same { "same" } else { "DIFFERS" };
            println!("{result}, {} active messages: {} {}", with.received(), example.name, example.arguments.join(" "));
            received += with.received();
            (!is_same).then(|| format!("{} {:?}: {without:#?}\n{with:#?}", example.name, example.arguments))
        })
        .collect();
    assert!(differing.is_empty(), "{}", differing.join("\n\n"));
    assert!(received >= AT_LEAST, "{received} active messages");
}
