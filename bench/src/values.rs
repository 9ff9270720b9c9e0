//! Values of the command line, from their text.

use std::time::Duration;

use crate::cli::CoresArg;

/// From a thousandth of a second to an hour.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds, as in 0.5".to_owned())?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| (MOMENT..=HOUR).contains(time))
        .ok_or_else(|| "from 0.001 to 3600 seconds".to_owned())
}

const MOMENT: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Two cores, or one, or `none`.
pub(crate) fn cores(text: &str) -> Result<CoresArg, String> {
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
