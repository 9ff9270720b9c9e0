//! The results of the checks.

use std::fmt;

use crate::Caps;

/// A check that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// The check passed.
    Passed,
    /// The transport's caps do not promise it.
    NotPromised,
}

/// Why a check failed: the expected and the actual behaviour.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CheckFailure(pub String);

/// Return a [`CheckFailure`] unless a condition holds.
macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err($crate::conformance::CheckFailure(format!($($why)+)));
        }
    };
}
pub(super) use ensure;

/// Every check of the suite, with its result.
#[derive(Clone, Debug)]
#[must_use = "a report may contain failures"]
pub struct Report {
    /// Name and mode of the transport.
    pub transport: String,
    /// Name and result of each check, in the order in which they ran.
    pub checks: Vec<(&'static str, Result<CheckResult, CheckFailure>)>,
}

impl Report {
    pub(super) fn of(caps: &Caps) -> Report {
        Report { transport: format!("{} ({})", caps.name, caps.mode), checks: vec![] }
    }

    pub(super) fn add(&mut self, name: &'static str, result: Result<CheckResult, CheckFailure>) {
        self.checks.push((name, result));
    }

    /// Names of the checks that failed.
    pub fn failed(&self) -> impl Iterator<Item = &'static str> {
        self.checks.iter().filter(|(_, result)| result.is_err()).map(|(name, _)| *name)
    }

    /// Assert that every check passed.
    ///
    /// # Panics
    /// A check failed. The message is the whole report.
    pub fn assert_passed(&self) {
        assert!(self.failed().next().is_none(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "conformance of {}", self.transport)?;
        for (name, result) in &self.checks {
            match result {
                Ok(CheckResult::Passed) => writeln!(f, "  ok            {name}")?,
                Ok(CheckResult::NotPromised) => writeln!(f, "  not promised  {name}")?,
                Err(why) => writeln!(f, "  FAILED        {name}: {why}")?,
            }
        }
        Ok(())
    }
}
