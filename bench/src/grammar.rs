//! The grammar of the command line. The help of each command shows the options that it takes.

use std::io::{ErrorKind, Write, stdout};

use clap::{Arg, Command, CommandFactory, FromArgMatches};

use crate::cli::Cli;
use crate::error::Error;

/// The demonstration chooses these itself.
const NOT_FOR_DEMO: [&str; 7] = ["hosts", "serve", "peer", "on", "name", "mtu", "trace"];

/// The ablation has its own rows and sizes.
const NOT_FOR_ABLATION: [&str; 3] = ["driver", "size", "trace"];

/// `stress` has its own messages, and no rounds; both sides are here.
const NOT_FOR_STRESS: [&str; 10] =
    ["serve", "peer", "on", "name", "driver", "size", "rounds", "time", "warm_up", "trace"];

/// Both rows of `bounce` are ours, and both sides are here.
const NOT_FOR_BOUNCE: [&str; 7] = ["serve", "peer", "on", "name", "driver", "coalesce", "trace"];

/// The comparison has its own rows and hosts.
const NOT_FOR_COMPARE: [&str; 8] = ["hosts", "serve", "peer", "on", "name", "driver", "coalesce", "trace"];

/// The help of options with another meaning for one command: command, option, help.
const OWN_HELP: [(&str, &str, &str); 12] = [
    ("latency", "size", "Payload bytes of a message (64K, 1M), or `full` for as many as a frame holds [default: 16]"),
    ("latency", "time", "Length of one measurement [default: 0.25]"),
    ("rate", "size", "Payload bytes of a message, or `full` for as many as a frame holds [default: 64]"),
    ("rate", "time", "Length of one measurement [default: 0.25]"),
    ("bandwidth", "time", "Length of one measurement [default: 0.25; with --sweep 0.05]"),
    ("compare", "rounds", "How many turns each peer takes; ratios are medians over these rounds [default: 3]"),
    ("compare", "time", "Length of one measurement [default: 0.1]"),
    ("compare", "size", "Bytes of a message (64K, 1M) [default: 8,64,512,4K,32K,256K,1M]"),
    ("compare", "mtu", "MTU of the veth pair, 140 to 65535 [default: 1500]"),
    ("ablation", "time", "Length of one measurement [default: 0.05]"),
    ("bounce", "hosts", "Run both hosts on this machine: any but loopback [default: veth]"),
    ("stress", "hosts", "Run both hosts on this machine, as two processes: any but loopback and sim [default: veth]"),
];

/// The near side chooses what to measure.
const NOT_FOR_SERVE: [&str; 13] = [
    "hosts", "serve", "peer", "mtu", "driver", "size", "coalesce", "rounds", "time", "warm_up", "json", "save", "trace",
];

/// Parse the command line. If it is wrong, or asks for help, print the answer and return the exit code.
///
/// # Errors
/// The help cannot be written, as on a full disk.
pub(crate) fn read() -> Result<Result<Cli, u8>, Error> {
    match grammar().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => Ok(Ok(cli)),
        Err(error) => answer(&error).map(Err),
    }
}

/// Print the error, or the help.
fn answer(error: &clap::Error) -> Result<u8, Error> {
    let code = u8::try_from(error.exit_code()).unwrap_or(2);
    match error.print().and_then(|()| stdout().flush()) {
        // The reader is gone; or standard error, which fails, is the only place for an error.
        Err(why) if why.kind() != ErrorKind::BrokenPipe && !error.use_stderr() => {
            Err(Error::System { doing: "writing the help", source: why })
        }
        _ => Ok(code),
    }
}

/// An option is valid for every command unless the command has its own of that name. Hidden options still parse, so
/// that a command can refuse them with a reason.
fn grammar() -> Command {
    let grammar = Cli::command();
    let hidden = |names: &[&str]| -> Vec<Arg> {
        let options = grammar.get_arguments().filter(|option| names.contains(&option.get_id().as_str()));
        options.map(|option| option.clone().hide(true)).collect()
    };
    let without = [
        ("demo", hidden(&NOT_FOR_DEMO)),
        ("ablation", hidden(&NOT_FOR_ABLATION)),
        ("compare", hidden(&NOT_FOR_COMPARE)),
        ("bounce", hidden(&NOT_FOR_BOUNCE)),
        ("stress", hidden(&NOT_FOR_STRESS)),
        ("serve", hidden(&NOT_FOR_SERVE)),
    ];
    let means = OWN_HELP.iter().flat_map(|(name, id, help)| {
        let options = grammar.get_arguments().filter(|option| option.get_id() == *id);
        options.map(|option| (*name, vec![option.clone().help(*help)]))
    });
    let take = |grammar: Command, (name, options)| grammar.mut_subcommand(name, |command| command.args(options));
    without.into_iter().chain(means).fold(grammar.clone(), take)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_is_sound() {
        grammar().debug_assert();
    }

    /// Whether a command's help shows an option.
    fn offers(command: &str, option: &str) -> bool {
        let line = ["am-bench", command, "--help"];
        let help = grammar().try_get_matches_from(line).unwrap_err().to_string();
        help.lines().any(|line| line.trim_start().starts_with(option))
    }

    #[test]
    fn a_command_names_its_own_defaults() {
        let help = |command: &str| {
            let line = ["am-bench", command, "--help"];
            let help = grammar().try_get_matches_from(line).unwrap_err().to_string();
            help.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert!(help("latency").contains("without queue="));
        assert!(!offers("compare", "--hosts") && offers("compare", "--mtu"));
        for (command, says, not) in [
            ("compare", "[default: 3]", "[default: 9]"),
            ("compare", "[default: 0.1]", "0.25"),
            ("latency", "[default: 16]", "rate 64"),
            ("stress", "any but loopback and sim", "Both hosts on this machine ["),
            ("stress", "there is no --time", "Length of one measurement"),
        ] {
            assert!(help(command).contains(says) && !help(command).contains(not), "{command}: {}", help(command));
        }
    }

    #[test]
    fn a_command_offers_what_it_takes() {
        for (command, refused) in [
            ("bounce", &["--serve", "--peer", "--on", "--name", "--driver", "--coalesce"][..]),
            ("stress", &["--peer", "--driver", "--size", "--rounds", "--time", "--warm-up"]),
            (
                "serve",
                &["--hosts", "--peer", "--mtu", "--driver", "--size", "--coalesce", "--rounds", "--time", "--json"],
            ),
        ] {
            assert!(offers(command, "--cores") && offers("latency", refused[0]), "{command}");
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
}
