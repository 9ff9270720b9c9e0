//! What our own small programs in C print (`bench/peers/measure.h`): a line a size and measurement.

use super::peer::{OneWay, Stream, Turn};
use super::room::Said;
use super::tool::strange;
use crate::error::Error;

/// The programs are made in the room: their common part, by its name there.
pub(super) const MEASURE: (&str, &str) = ("measure.h", include_str!("../../peers/measure.h"));

/// What a program measured.
///
/// # Errors
/// Nothing, or something that is not understood.
pub(super) fn turn(program: &str, said: &Said, mode: &str) -> Result<Turn, Error> {
    let mut turn = Turn { mode: mode.to_owned(), ..Turn::default() };
    for line in said.text.lines() {
        // Launchers say things of their own in between.
        read(line, &mut turn);
    }
    let is_empty = turn.one_way.is_empty() && turn.stream.is_empty();
    if is_empty { Err(strange(program, &said.text)) } else { Ok(turn) }
}

fn read(line: &str, turn: &mut Turn) -> Option<()> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    match fields[..] {
        ["one-way", size, p50, p99, mean] => {
            let (p50, p99, mean) = (Some(number(p50)?), Some(number(p99)?), Some(number(mean)?));
            turn.one_way.push(OneWay { size: size.parse().ok()?, p50, p99, mean });
        }
        ["stream", size, messages, cpu] => {
            let (messages, cpu) = (number(messages)?, Some(number(cpu)?));
            turn.stream.push(Stream { size: size.parse().ok()?, messages, cpu, lost: 0, batching: None });
        }
        _ => {}
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Said {
        Said { text: text.to_owned(), ..Said::default() }
    }

    #[test]
    fn what_they_print() {
        let text = "\
a launcher says something
one-way 8 10369.5 9993746.5 155050.1
stream 8 67368.093 7951.5
";
        let turn = turn("mpi", &said(text), "veth").unwrap();
        let one_way = OneWay { size: 8, p50: Some(10_369.5), p99: Some(9_993_746.5), mean: Some(155_050.1) };
        assert_eq!(turn.one_way, [one_way]);
        assert_eq!(turn.stream, [Stream { size: 8, messages: 67_368.093, cpu: Some(7951.5), lost: 0, batching: None }]);
    }

    #[test]
    fn strange_output_is_an_error() {
        for text in [
            "",
            "one-way 8",
            "one-way x 1 2 3",
            "stream 8 NaN 1",
            "stream 8 -1 1",
            "stream 8 inf 1",
            "one-way 8 1 2 3 4",
        ] {
            assert!(turn("mpi", &said(text), "veth").is_err(), "{text}");
        }
    }
}
