//! Parses values of the command line.

use std::path::Path;
use std::time::Duration;

use am_wire::control::Name;

use crate::cores::CoresArg;
use crate::loss::per_cent;
use crate::size::Size;

pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds, as in 0.5".to_owned())?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| (Duration::from_millis(1)..=Duration::from_secs(3600)).contains(time))
        .ok_or_else(|| "from 0.001 to 3600 seconds".to_owned())
}

/// A path that lives as long as the process.
pub fn path(text: &str) -> Result<&'static Path, String> {
    Ok(Path::new(String::leak(text.to_owned())))
}

/// The receiver keeps a bit of each: more than a gigabyte.
const MAX_COUNT: f64 = 1e10;

/// A count: `1e8`, `100000000`.
pub fn count(text: &str) -> Result<u64, String> {
    if text.parse::<f64>().is_ok_and(|number| number > MAX_COUNT) {
        return Err("too large: at most 1e10".to_owned());
    }
    number(text).ok_or_else(|| "not a whole number, as in 1000000 or 1e6".to_owned())
}

/// A number of bytes: `100GiB`, `1e9`.
pub fn bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 4] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("B", 1)];
    let unit = UNITS.into_iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)));
    let (digits, unit) = unit.unwrap_or((text, 1));
    number(digits).and_then(|count| count.checked_mul(unit)).ok_or_else(|| "bytes, as in 100GiB or 1e9".to_owned())
}

/// A whole number that a double can hold.
fn number(text: &str) -> Option<u64> {
    const MAX_EXACT: f64 = (1u64 << 53) as f64;
    let number: f64 = text.parse().ok()?;
    (number.fract() == 0.0 && (0.0..=MAX_EXACT).contains(&number)).then_some(number as u64)
}

/// A percentage, as a number of a million.
pub fn share(text: &str) -> Result<u32, String> {
    let share = per_cent(text).filter(|per_cent| (0.0..=50.0).contains(per_cent));
    share
        .map(|per_cent| (per_cent * 10_000.0).round() as u32)
        .ok_or_else(|| "per cent of the frames, from 0 to 50, as in 0.1 or 0.1%".to_owned())
}

pub fn cores(text: &str) -> Result<CoresArg, String> {
    let wrong = || "two cores as in 2,3, one core, or `none`".to_owned();
    if text == "none" {
        return Ok(CoresArg::None);
    }
    let cores: Vec<usize> = text.split(',').map(|core| core.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
    match cores[..] {
        [one] => Ok(CoresArg::One(one)),
        [a, b] if a != b => Ok(CoresArg::Two(a, b)),
        [_, _] => Err("two different cores: both sides spin".to_owned()),
        _ => Err(wrong()),
    }
}

/// Bytes of a message: `16`, `64K`.
pub fn message(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(Size::Bytes(bytes)) => Ok(bytes),
        _ => Err("not a size in bytes, as in 16, 64K or 1M".to_owned()),
    }
}

/// For both sides on this machine.
pub fn two_cores(text: &str) -> Result<CoresArg, String> {
    match cores(text)? {
        CoresArg::One(core) => {
            Err(format!("both sides run on this machine: two cores, as in {core},{}, or `none`", core + 1))
        }
        cores => Ok(cores),
    }
}

pub fn node_name(name: &str) -> Result<String, String> {
    let bad = || format!("no name for a node: 1 to {} bytes, no control characters", Name::MAX_BYTES);
    Name::new(name).map(|_| name.to_owned()).ok_or_else(bad)
}

/// The host's name, cut to the length of a node's.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name.trim().chars().filter(char::is_ascii).take(Name::MAX_BYTES).collect();
    if name.is_empty() { "am-bench".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        assert_eq!([count("1e8"), count("12"), count("0")], [Ok(100_000_000), Ok(12), Ok(0)]);
        assert_eq!([bytes("100GiB"), bytes("3B"), bytes("1e3")], [Ok(100 << 30), Ok(3), Ok(1000)]);
        assert_eq!([share("0.1%"), share("0%"), share("50%")], [Ok(1000), Ok(0), Ok(500_000)]);
        assert_eq!([share("0.1"), share("0"), share("50")], [Ok(1000), Ok(0), Ok(500_000)]);
        assert!(["1.5", "-1", "1e17", "many"].iter().all(|text| count(text).is_err() && bytes(text).is_err()));
        let refused = |text| count(text).unwrap_err();
        assert!(refused("1e11").starts_with("too large") && refused("1.5").starts_with("not a whole"));
        assert!(["NaN", "51", "51%", "-1%", "%", ""].iter().all(|text| share(text).is_err()));
    }
}
