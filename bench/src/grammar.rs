//! The command line's grammar, with a help for each command that offers what it takes.

use clap::{Arg, Command, CommandFactory, FromArgMatches};

use crate::cli::Cli;

/// What the demonstration decides itself.
const NOT_FOR_DEMO: [&str; 6] = ["hosts", "serve", "peer", "on", "name", "mtu"];

/// The ablation has rows and sizes of its own.
const NOT_FOR_ABLATION: [&str; 2] = ["via", "size"];

/// So has the torture, and no rounds.
const NOT_FOR_TORTURE: [&str; 9] = ["serve", "peer", "on", "name", "via", "size", "rounds", "time", "warm_up"];

/// What the user said; ends the process where that has no sense, or asks for help.
pub(crate) fn read() -> Cli {
    Cli::from_arg_matches(&grammar().get_matches()).unwrap_or_else(|error| error.exit())
}

/// An option stands for every command that has none of the same name. Those that
/// are hidden still parse, so that they can be refused with a reason.
fn grammar() -> Command {
    let grammar = Cli::command();
    let hidden = |names: &[&str]| -> Vec<Arg> {
        let options = grammar.get_arguments().filter(|option| names.contains(&option.get_id().as_str()));
        options.map(|option| option.clone().hide(true)).collect()
    };
    let [demo, ablation, torture] = [&NOT_FOR_DEMO[..], &NOT_FOR_ABLATION, &NOT_FOR_TORTURE].map(hidden);
    let grammar = grammar.mut_subcommand("demo", |command| command.args(demo));
    let grammar = grammar.mut_subcommand("ablation", |command| command.args(ablation));
    grammar.mut_subcommand("torture", |command| command.args(torture))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_is_sound() {
        grammar().debug_assert();
    }

    #[test]
    fn an_option_may_stand_before_the_command_or_after_it() {
        for line in ["am-bench --rounds 3 --hosts veth latency", "am-bench latency --rounds 3 --hosts veth"] {
            let matches = grammar().try_get_matches_from(line.split_whitespace()).unwrap();
            let options = Cli::from_arg_matches(&matches).unwrap().options;
            assert!(options.rounds == 3 && options.hosts.is_some(), "{line}");
        }
        for line in [
            "am-bench --hosts veth demo",
            "am-bench demo --hosts veth",
            "am-bench --via am ablation",
            "am-bench ablation --size 16",
        ] {
            let matches = grammar().try_get_matches_from(line.split_whitespace()).unwrap();
            assert!(Cli::from_arg_matches(&matches).unwrap().task().is_err(), "{line} is refused");
        }
    }
}
