//! What the methods of this side have done.

use std::cell::Cell;
use std::time::Duration;

use crate::codec::Wire;
use crate::method::{MethodInfo, ServiceInfo};
use crate::status::Status;
use crate::times::Times;

/// What a method has done since its service is served.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
pub struct MethodStatistics {
    /// The service.
    pub service: String,
    /// Its method.
    pub method: String,
    /// Calls whose method returned.
    pub returned: u64,
    /// Those of them that returned an error of the service.
    pub errors: u64,
    /// Calls whose method panicked.
    pub panicked: u64,
    /// Calls that were refused, and did not run: `Mismatch`, `Late`, `Malformed`, `ShuttingDown`, `Busy`, `Forbidden`.
    pub refused: u64,
    /// Calls that run as tasks now.
    pub running: u64,
    /// How long calls took that returned or panicked, from their turn to their answer: of an `async` method also what it waited for.
    pub latency: Latency,
}

/// The distribution of times, each within three per cent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Wire)]
pub struct Latency {
    /// The median.
    pub p50: Duration,
    /// One in ten takes longer.
    pub p90: Duration,
    /// One in a hundred takes longer.
    pub p99: Duration,
    /// One in a thousand takes longer.
    pub p999: Duration,
    /// The longest.
    pub max: Duration,
}

/// Counts what one method does.
pub(crate) struct Tally {
    pub(crate) service: &'static ServiceInfo,
    pub(crate) method: &'static MethodInfo,
    errors: Cell<u64>,
    panicked: Cell<u64>,
    refused: Cell<u64>,
    running: Cell<u64>,
    times: Times,
}

fn count(what: &Cell<u64>) {
    what.set(what.get() + 1);
}

impl Tally {
    pub(crate) fn new(service: &'static ServiceInfo, method: &'static MethodInfo) -> Tally {
        let [errors, panicked, refused, running] = Default::default();
        Tally { service, method, errors, panicked, refused, running, times: Times::default() }
    }

    /// A call has ended with this status, after so many nanoseconds.
    #[inline]
    pub(crate) fn ended(&self, status: Status, took: u64) {
        match status {
            Status::Error => count(&self.errors),
            Status::Panicked => count(&self.panicked),
            _ if status.has_run() => {}
            _ => return count(&self.refused),
        }
        self.times.add(took);
    }

    pub(crate) fn begins_task(&self) {
        count(&self.running);
    }

    pub(crate) fn ends_task(&self) {
        self.running.set(self.running.get() - 1);
    }

    pub(crate) fn read(&self) -> MethodStatistics {
        let times = &self.times;
        let [p50, p90, p99, p999] = times.quantiles([0.5, 0.9, 0.99, 0.999]);
        MethodStatistics {
            service: self.service.name.into(),
            method: self.method.name.into(),
            returned: times.len() - self.panicked.get(),
            errors: self.errors.get(),
            panicked: self.panicked.get(),
            refused: self.refused.get(),
            running: self.running.get(),
            latency: Latency { p50, p90, p99, p999, max: times.max() },
        }
    }
}
