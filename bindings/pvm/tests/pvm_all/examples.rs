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
const AT_LEAST: u64 = 500;

const fn plain(name: &'static str) -> Example {
    Example { name, arguments: &[], input: "", says_times: false }
}

const fn of(name: &'static str, arguments: &'static [&'static str]) -> Example {
    Example { arguments, ..plain(name) }
}

const fn asks(name: &'static str, input: &'static str) -> Example {
    Example { input, ..plain(name) }
}

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
    plain("inherit1"),
    plain("inherita"),
    plain("task0"),
    plain("gmbi"),
    plain("lmbi"),
    plain("rme"),
    // These are Fortran's.
    asks("fmaster1", "4\n"),
    asks("fgexample", "100\n4\n"),
    plain("fspmd"),
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
    let mut lines: Vec<String> = said.output.lines().map(line).collect();
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
            let is_same = same && without.is_good == with.is_good;
            println!(
                "{:12} {} active messages: {}",
                example.name,
                with.received(),
                if is_same { "same" } else { "DIFFERS" }
            );
            received += with.received();
            (!is_same).then(|| format!("{}: {without:#?}\n{with:#?}", example.name))
        })
        .collect();
    assert!(differing.is_empty(), "{}", differing.join("\n\n"));
    assert!(received >= AT_LEAST, "{received} active messages");
}
