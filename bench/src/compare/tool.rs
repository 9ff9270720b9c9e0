//! What all programs that were not written here have in common.

use std::time::Duration;

use super::heard::hear;
use super::peer::Asked;
use super::room::alone::{self, NOT_STARTED};
use super::room::{self, Job, Said};
use crate::deploy::veth::Pair;
use crate::error::Error;
use crate::watch::Watch;

/// What installs all of them.
const SETUP: &str = "scripts/setup --with-peers";

/// To say a version takes so long at most, on a machine that is busy and has the program on a slow disk.
const SAYS: Duration = Duration::from_secs(5);

/// The version of a program, from what it prints of it.
///
/// # Errors
/// It is not installed, says nothing or too much, or hangs; or `watch` said to stop.
pub(super) fn version(program: &str, arguments: &[&str], watch: &Watch) -> Result<String, String> {
    installed(program)?;
    let not_started = |why: &str| format!("{program} cannot be started: {}", why.trim());
    let mut command = alone::command(program, arguments).map_err(|why| not_started(&why.to_string()))?;
    let silent = format!("{program} {} does not say its version", arguments.join(" "));
    let heard = hear(&mut command, SAYS, || watch.check()).map_err(|why| format!("{silent}: {why}"))?;
    let code = heard.status.code();
    let said = String::from_utf8_lossy(&heard.all()).into_owned();
    if code == Some(NOT_STARTED) { Err(not_started(&said)) } else { first_with_a_number(&said).ok_or(silent) }
}

/// Whether there is such a program.
///
/// # Errors
/// It is not installed.
pub(super) fn installed(program: &str) -> Result<(), String> {
    let places = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&places).any(|place| place.join(program).is_file());
    if found { Ok(()) } else { Err(format!("{program} is not installed: {SETUP}")) }
}

/// The first line that a version may be in, without what is drawn around it.
fn first_with_a_number(said: &str) -> Option<String> {
    let line = said.lines().find(|line| line.contains(|c: char| c.is_ascii_digit()))?;
    let line = line.trim_start_matches(|c: char| !c.is_alphanumeric());
    let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(words.chars().filter(|c| !c.is_control()).take(60).collect())
}

/// Do it in a room, until the limit that was asked for; where a program failed, that is the error.
///
/// # Errors
/// As [`room::run`].
pub(super) fn run(job: Job, pair: &Pair, asked: &Asked, watch: &Watch) -> Result<Vec<Said>, Error> {
    let said = room::run(job, pair, asked.cores, asked.limit, watch)?;
    match said.iter().find_map(|said| said.trouble.clone()) {
        Some(trouble) => Err(Error::Facility(trouble)),
        None => Ok(said),
    }
}

/// Of what is not understood, its end: there a program says why it stops.
const MOST: usize = 240;

/// What was printed is nothing that was expected.
pub(super) fn strange(program: &str, said: &str) -> Error {
    let said: Vec<char> = said.chars().filter(|c| !c.is_control()).collect();
    let end: String = said[said.len().saturating_sub(MOST)..].iter().collect();
    Error::Facility(format!("{program} printed what is not understood: `{end}`"))
}

/// The number behind these words.
pub(super) fn number_after(text: &str, words: &str) -> Option<f64> {
    let (_, rest) = text.split_once(words)?;
    let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '=');
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    rest[..end].parse().ok().filter(|number: &f64| number.is_finite())
}

/// Processor time of one message, where so many cores were busy.
pub(super) fn cpu(busy: f64, messages: f64) -> Option<f64> {
    Some(busy * 1e9 / messages).filter(|time| time.is_finite() && *time > 0.0)
}

/// How often something that takes so many nanoseconds goes into a measurement.
pub(super) fn times(asked: &Asked, nanoseconds: f64) -> u64 {
    (asked.amount.time.as_nanos() as f64 / nanoseconds.max(1.0)).ceil().max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_they_are_printed() {
        for (said, version) in [
            ("sockperf, version 3.7-no.git\n   compiled 2021-08-23\n", "sockperf, version 3.7-no.git"),
            ("# Version 1.13.1\n# Git branch\n", "Version 1.13.1"),
            ("HYDRA build details:\n    Version:                  4.0.2\n", "Version: 4.0.2"),
            ("mpirun.openmpi (OpenRTE) 4.1.4\n\nReport", "mpirun.openmpi (OpenRTE) 4.1.4"),
        ] {
            assert_eq!(first_with_a_number(said).as_deref(), Some(version));
        }
        assert_eq!(first_with_a_number("nothing\n"), None);
    }

    #[test]
    fn numbers_behind_words() {
        assert_eq!(number_after("p 50.000 =    7.263\n", "p 50.000"), Some(7.263));
        assert_eq!(number_after("rate is 83675 [msg/sec]", "rate is"), Some(83675.0));
        for text in ["", "rate is", "rate is many", "rate is 1.2.3", "rate is µ"] {
            assert_eq!(number_after(text, "rate is"), None, "{text}");
        }
    }

    #[test]
    fn what_is_missing_says_what_installs_it() {
        let watch = Watch::default();
        let why = version("am-bench-peer-that-is-nowhere", &["--version"], &watch).unwrap_err();
        assert_eq!(why, "am-bench-peer-that-is-nowhere is not installed: scripts/setup --with-peers");
    }
}
