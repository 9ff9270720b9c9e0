//! Parses values of the command line.

use std::path::Path;
use std::time::Duration;

use am_wire::control::Name;

use crate::cores::CoresArg;
use crate::size::Size;

/// A time in seconds: `0.5`.
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

/// One core, two, or `none`.
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
pub(crate) fn two_cores(text: &str) -> Result<CoresArg, String> {
    match cores(text)? {
        CoresArg::One(core) => {
            Err(format!("both sides run on this machine: two cores, as in {core},{}, or `none`", core + 1))
        }
        cores => Ok(cores),
    }
}

pub(crate) fn node_name(name: &str) -> Result<String, String> {
    let bad = || format!("no name for a node: 1 to {} bytes, no control characters", Name::MAX_BYTES);
    Name::new(name).map(|_| name.to_owned()).ok_or_else(bad)
}

/// The host's name, cut to the length of a node's.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name.trim().chars().filter(char::is_ascii).take(Name::MAX_BYTES).collect();
    if name.is_empty() { "am-bench".to_owned() } else { name }
}
