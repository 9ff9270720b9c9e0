//! The grammar of the command line. The help of each command shows the options that it takes.

use std::io::{ErrorKind, Write, stdout};

use clap::{Arg, Command, CommandFactory, FromArgMatches};

use crate::cli::Cli;
use crate::error::Error;

/// The options that a command does not take: command, options.
const NOT_FOR: [(&str, &[&str]); 8] = [
    // It chooses these itself.
    ("demo", &["hosts", "serve", "peer", "on", "name", "mtu", "trace"]),
    // It has its own rows and sizes.
    ("ablation", &["driver", "size", "trace"]),
    // It has its own rows and hosts.
    ("compare", &["hosts", "serve", "peer", "on", "name", "driver", "coalesce", "trace"]),
    // Both rows are ours, and both sides are here.
    ("bounce", &["serve", "peer", "on", "name", "driver", "coalesce", "trace"]),
    // It has its own messages, and no rounds; both sides are here.
    ("stress", &["serve", "peer", "on", "name", "driver", "size", "rounds", "time", "warm_up", "trace"]),
    // It times a fixed number of single messages; both sides are here.
    ("phases", &["serve", "peer", "on", "name", "driver", "coalesce", "time", "warm_up", "trace"]),
    // It has its own cable, rows and sizes.
    ("table2", &["hosts", "serve", "peer", "on", "name", "driver", "size", "coalesce", "trace"]),
    // The near side chooses what to measure.
    (
        "serve",
        &[
            "hosts", "serve", "peer", "mtu", "driver", "size", "coalesce", "rounds", "time", "warm_up", "json", "save",
            "trace",
        ],
    ),
];

/// The help of options with another meaning for one command: command, option, help.
const OWN_HELP: [(&str, &str, &str); 14] = [
    ("latency", "size", "Payload bytes of a message (64K, 1M), or `full` for as many as a frame holds [default: 16]"),
    ("latency", "time", "Length of one measurement [default: 0.25]"),
    ("rate", "size", "Payload bytes of a message, or `full` for as many as a frame holds [default: 64]"),
    ("rate", "time", "Length of one measurement [default: 0.25]"),
    ("bandwidth", "time", "Length of one measurement [default: 0.25; with --sweep 0.05]"),
    ("compare", "rounds", "How many turns each peer takes; ratios are medians over these rounds [default: 3]"),
    ("compare", "time", "Length of one measurement [default: 0.1]"),
    ("compare", "size", "Bytes of a message (64K, 1M) [default: 8,64,512,4K,32K,256K,1M]"),
    ("compare", "mtu", "MTU of the veth pair, 148 to 65535 [default: 1500]"),
    ("compare", "cores", "Cores of the near and the far side, or `none` [default: the last two]"),
    ("compare", "framing", "Where our messages carry their header [default: bare]"),
    ("ablation", "time", "Length of one measurement [default: 0.05]"),
    ("bounce", "hosts", "Run both hosts on this machine: any but loopback [default: veth]"),
    ("stress", "hosts", "Run both hosts on this machine, as two processes: any but loopback and sim [default: veth]"),
];

/// Parse the command line. If it is wrong, or asks for help, print the answer and return the exit code.
pub(crate) fn read() -> Result<Result<Cli, u8>, Error> {
    let error = match grammar().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => return Ok(Ok(cli)),
        Err(error) => error,
    };
    match error.print().and_then(|()| stdout().flush()) {
        // The reader is gone; or standard error, which fails, is the only place for an error.
        Err(why) if why.kind() != ErrorKind::BrokenPipe && !error.use_stderr() => {
            Err(Error::System { doing: "writing the help", source: why })
        }
        _ => Ok(Err(u8::try_from(error.exit_code()).unwrap_or(2))),
    }
}

/// An option is valid for every command unless the command has its own of that name. Hidden options still parse, so
/// that a command can refuse them with a reason.
fn grammar() -> Command {
    let grammar = Cli::command();
    let options = |ids: &[&str], change: &dyn Fn(Arg) -> Arg| -> Vec<Arg> {
        let its = grammar.get_arguments().filter(|option| ids.contains(&option.get_id().as_str()));
        its.cloned().map(change).collect()
    };
    let without = NOT_FOR.iter().map(|(name, ids)| (*name, options(ids, &|option| option.hide(true))));
    let means = OWN_HELP.iter().map(|(name, id, help)| (*name, options(&[*id], &|option| option.help(*help))));
    let take = |grammar: Command, (name, options)| grammar.mut_subcommand(name, |command| command.args(options));
    without.chain(means).fold(grammar.clone(), take)
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
            ("compare", "header [default: bare]", "--serve"),
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
            ("phases", &["--peer", "--on", "--name", "--driver", "--coalesce", "--time", "--warm-up", "--trace"]),
            ("table2", &["--hosts", "--peer", "--on", "--name", "--driver", "--size", "--coalesce", "--trace"]),
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
