use super::*;
use crate::cli::{DEFAULT_ROUNDS, PERMUTE_SIZE};
use crate::plan::Bench;
use crate::size::Size;
use crate::{compare, many};

#[test]
fn the_grammar_is_sound() {
    grammar().debug_assert();
}

/// The help of a command.
fn help(command: &str) -> String {
    grammar().try_get_matches_from(["am-bench", command, "--help"]).unwrap_err().to_string()
}

/// The help of one option, in one line, if the command's help shows it.
fn section(command: &str, option: &str) -> Option<String> {
    let (help, is_head) = (help(command), |line: &str| line.trim_start().starts_with("--"));
    let mut lines = help.lines().skip_while(|line| line.split_whitespace().next() != Some(option));
    let head = lines.next()?.to_owned();
    let words = lines.take_while(|line| !is_head(line)).flat_map(str::split_whitespace);
    Some(std::iter::once(head.trim()).chain(words).collect::<Vec<_>>().join(" "))
}

/// Whether a command's help shows an option.
fn offers(command: &str, option: &str) -> bool {
    section(command, option).is_some()
}

/// The default that the help names, without its exceptions.
fn default_of(command: &str, option: &str) -> Option<String> {
    let section = section(command, option)?;
    let (_, default) = section.split_once("[default: ").unwrap_or_else(|| panic!("{command}: {section}"));
    default.split([']', ';']).next().map(str::to_owned)
}

const MEASURED: [&str; 13] = [
    "latency",
    "bandwidth",
    "rate",
    "compare",
    "ablation",
    "bounce",
    "logp",
    "contention",
    "permute",
    "wakeup",
    "phases",
    "table2",
    "demo",
];

#[test]
fn a_command_names_its_own_rounds() {
    for command in MEASURED {
        let rounds = match command {
            "compare" => compare::ROUNDS,
            "contention" | "permute" => many::BRIDGED_ROUNDS,
            "wakeup" => crate::DEFAULT_WAKEUP_ROUNDS,
            "phases" => crate::DEFAULT_PHASES_ROUNDS,
            _ => DEFAULT_ROUNDS,
        };
        assert_eq!(default_of(command, "--rounds"), Some(rounds.to_string()), "{command}");
    }
    for command in names().iter().filter(|command| !MEASURED.contains(&command.as_str())) {
        assert!(!offers(command, "--rounds"), "{command}");
    }
}

#[test]
fn a_command_names_its_own_time() {
    for command in names() {
        let time = match &command[..] {
            "latency" | "bandwidth" | "rate" | "bounce" | "table2" => crate::DEFAULT_TIME,
            "compare" => compare::TIME,
            "ablation" => crate::DEFAULT_SWEEP_TIME,
            "logp" => crate::DEFAULT_LOGP_TIME,
            "contention" | "permute" => many::BRIDGED_TIME,
            "scale" => many::CONTENTION_TIME,
            "demo" => crate::DEFAULT_DEMO_TIME,
            other => {
                assert!(!offers(other, "--time") && !offers(other, "--warm-up"), "{other}");
                continue;
            }
        };
        let default = default_of(&command, "--time").unwrap();
        assert_eq!(crate::values::seconds(&default), Ok(time), "{command}");
        let share =
            if ["contention", "permute", "scale"].contains(&&command[..]) { "as long as" } else { "a fifth of" };
        assert!(default_of(&command, "--warm-up").unwrap().starts_with(share), "{command}");
    }
}

#[test]
fn a_command_names_its_own_sizes() {
    let bytes = |sizes: &[usize]| sizes.iter().copied().map(Size::Bytes).collect::<Vec<_>>();
    for command in names() {
        let sizes = match &command[..] {
            "latency" => Bench::Latency.default_sizes().to_vec(),
            "bandwidth" => Bench::Bandwidth.default_sizes().to_vec(),
            "rate" => Bench::Rate.default_sizes().to_vec(),
            "logp" => Bench::LogP.default_sizes().to_vec(),
            "compare" => bytes(&compare::SIZES),
            "bounce" => bytes(&[crate::DEFAULT_BOUNCE_SIZE]),
            "contention" => bytes(&crate::contention::SIZES),
            "permute" => bytes(&[PERMUTE_SIZE]),
            "phases" => bytes(&crate::phases::SIZES),
            "demo" => continue,
            other => {
                assert!(!offers(other, "--size"), "{other}");
                continue;
            }
        };
        let default = default_of(&command, "--size").unwrap();
        let named: Result<Vec<Size>, _> = default.split(',').map(str::parse).collect();
        assert_eq!(named, Ok(sizes), "{command}");
    }
}

/// What is said of all commands is not said of one that lacks it.
#[test]
fn a_command_says_nothing_of_what_it_has_not() {
    for command in names() {
        let whole = help(&command).split_whitespace().collect::<Vec<_>>().join(" ");
        for (option, words) in [
            ("--peer", &["with --peer", "--peer and"][..]),
            ("--hosts", &["--hosts or", "other --hosts", "bare with --hosts"]),
            ("--sweep", &["with --sweep", "latency 16, bandwidth full, rate 64", "demo 0.1"]),
        ] {
            let said = words.iter().find(|words| whole.contains(**words));
            assert!(offers(&command, option) || said.is_none(), "{command} has no {option}: {said:?}");
        }
        let rows_only = ["latency", "serve"].contains(&&command[..]);
        assert!(rows_only || !whole.contains("- cacheline"), "{command} refuses cacheline");
    }
    for (command, not) in [("phases", "- sim"), ("phases", "- loopback"), ("stress", "- sim"), ("stress", "- loopback")]
    {
        assert!(!section(command, "--hosts").unwrap().contains(not), "{command} refuses {not}");
    }
    assert!(section("bounce", "--hosts").unwrap().contains("- sim:") && offers("compare", "--hosts"));
}

#[test]
fn a_command_names_its_own_defaults() {
    for (command, option, says) in [
        ("latency", "--on", "without queue="),
        ("compare", "--framing", "header [default: bare]"),
        ("contention", "--framing", "[default: split]"),
        ("phases", "--mtu", "[default: 1500]"),
        ("stress", "--coalesce", "[default: on]"),
        ("bandwidth", "--coalesce", "on with --sweep"),
        ("demo", "--size", "round trip 16, bandwidth full"),
    ] {
        assert!(section(command, option).unwrap().contains(says), "{command}: {}", help(command));
    }
    assert!(help("stress").contains("there is no --time"));
}

#[test]
fn a_command_offers_what_it_takes() {
    for (command, refused) in [
        ("bounce", &["--serve", "--peer", "--on", "--name", "--driver", "--coalesce"][..]),
        ("stress", &["--peer", "--driver", "--size", "--rounds", "--time", "--warm-up"]),
        ("phases", &["--peer", "--on", "--name", "--driver", "--coalesce", "--time", "--warm-up", "--trace"]),
        ("logp", &["--serve", "--coalesce", "--trace"]),
        ("contention", &["--serve", "--peer", "--on", "--name", "--driver", "--trace"]),
        ("scale", &["--hosts", "--peer", "--on", "--cores", "--driver", "--size", "--rounds"]),
        ("table2", &["--hosts", "--peer", "--on", "--name", "--driver", "--size", "--coalesce", "--trace"]),
        ("serve", &["--hosts", "--peer", "--mtu", "--driver", "--size", "--coalesce", "--rounds", "--time", "--json"]),
    ] {
        assert!(offers(command, "--framing") && offers("latency", refused[0]), "{command}");
        assert_eq!(refused.iter().find(|option| offers(command, option)), None, "{command}");
    }
}

#[test]
fn an_option_may_stand_before_the_command_or_after_it() {
    for line in ["am-bench --rounds 3 --hosts veth latency", "am-bench latency --rounds 3 --hosts veth"] {
        let matches = grammar().try_get_matches_from(line.split_whitespace()).unwrap();
        let options = Cli::from_arg_matches(&matches).unwrap().options;
        assert!(options.rounds == Some(3) && options.hosts.is_some(), "{line}");
    }
    for line in [
        "am-bench --hosts veth demo",
        "am-bench demo --hosts veth",
        "am-bench --driver am ablation",
        "am-bench ablation --size 16",
    ] {
        let matches = grammar().try_get_matches_from(line.split_whitespace()).unwrap();
        assert!(Cli::from_arg_matches(&matches).unwrap().task().is_err(), "{line} is refused");
    }
}
