//! A turn of one route: a PVM of two hosts in a sandbox, and all programs in it.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use am_measure::deploy::Pair;
use am_measure::sandbox::{self, Job, run_well};
use am_measure::{Amount, Cores, Error, Watch};
use serde::Deserialize;

use crate::route::{GROUP, GROUP_SIZES, Route, Way};

/// What the sandbox has beside the files of every one.
const FILES: [(&str, &str); 5] = [
    sandbox::PVM_FILES[0],
    sandbox::PVM_FILES[1],
    ("tasks.h", include_str!("../programs/tasks.h")),
    ("group.c", include_str!("../programs/group.c")),
    ("fft.c", include_str!("../programs/fft.c")),
];

const LIBRARY: &str = "libpvm_am.so";

/// The limit of a request for the version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// A figure of a program. Times are in nanoseconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    /// As `pvm.sh` names it.
    pub(crate) way: String,
    /// Of several calls of one program.
    #[serde(default)]
    pub(crate) call: String,
    pub(crate) size: usize,
    /// Two tasks: half of a round trip. Several: the call.
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    #[serde(rename = "mean")]
    _mean: Option<f64>,
    /// Messages a second, one way.
    pub(crate) messages: Option<f64>,
    /// Processor time of one of them, both tasks together.
    pub(crate) cpu: Option<f64>,
}

/// A line, and whose it is.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) round: usize,
    pub(crate) route: Route,
    pub(crate) line: Line,
}

/// What is measured, and where.
pub(crate) struct Order {
    pub(crate) pair: Pair,
    pub(crate) library: PathBuf,
    pub(crate) sizes: Vec<usize>,
    pub(crate) slaves: Vec<usize>,
    pub(crate) cores: Cores,
    pub(crate) amount: Amount,
    pub(crate) limit: Duration,
}

#[derive(Debug, Deserialize)]
struct Version {
    version: String,
}

/// The library that is loaded before PVM's: this one, or the newer one of that beside this program and that of `make -C bindings/pvm`.
pub(crate) fn library(given: Option<&Path>) -> Result<PathBuf, Error> {
    if let Some(library) = given {
        let missing = || Error::Facility(format!("there is no {}", library.display()));
        return library.exists().then(|| library.to_owned()).ok_or_else(missing);
    }
    let own = env::current_exe().unwrap_or_default();
    let beside = own.with_file_name(LIBRARY);
    newest(&[&beside, &beside.with_file_name("../library").join(LIBRARY)]).ok_or_else(|| {
        let advice = "make -C bindings/pvm, cargo build --release -p am-pvm, or --library";
        Error::Facility(format!("there is no {}, and none in ../library beside it: {advice}", beside.display()))
    })
}

/// A library's file and its directory, which says how it was built.
pub(crate) fn short_name(library: &Path) -> String {
    let parts: Vec<_> = library.components().rev().take(2).map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("/")
}

/// The file of these that was written last.
fn newest(files: &[&Path]) -> Option<PathBuf> {
    let written = |file: &Path| fs::metadata(file).and_then(|file| file.modified()).ok();
    let files = files.iter().filter_map(|file| Some((written(file)?, file.canonicalize().ok()?)));
    files.max().map(|(_, file)| file)
}

/// The version of PVM.
pub(crate) fn version(watch: &Watch) -> Result<String, Error> {
    let job = Job { script: "pvm.sh direct version", far: "", files: &FILES, library: None };
    let output = run_well("pvm", &mut job.command(), VERSION_TIMEOUT, watch)?;
    let lines: Vec<Version> = sandbox::lines(&output).map_err(Error::Facility)?;
    lines.into_iter().next().map(|line| line.version).ok_or_else(|| Error::Facility(sandbox::unreadable(&output)))
}

/// Measure everything once over this route.
pub(crate) fn take(route: Route, round: usize, order: &Order, watch: &Watch) -> Result<Vec<Measured>, Error> {
    let ways = Way::ALL.iter().map(|way| way.name().to_owned());
    let many =
        order.slaves.iter().filter(|slaves| route.takes_many() || **slaves == 1).map(|slaves| format!("fft:{slaves}"));
    let has_group = route.takes_many() && order.sizes.iter().any(|size| GROUP_SIZES.contains(size));
    let group = has_group.then(|| format!("group:{GROUP}"));
    let ways: Vec<String> = ways.chain(group).chain(many).collect();
    let script = format!("pvm.sh {} {}", route.name(), ways.join(" "));
    let [near, far] = &order.pair.hosts;
    let far = far.path();
    let job = Job { script: &script, far: &far, files: &FILES, library: Some(&order.library) };
    let mut command = job.measure(order.amount, order.cores, &order.sizes);
    let output = near.enter(|| run_well(route.name(), &mut command, order.limit, watch))??;
    let lines: Vec<Line> = sandbox::lines(&output).map_err(Error::Facility)?;
    let missing = |way: &&String| !lines.iter().any(|line| line.way == **way);
    if let Some(way) = ways.iter().find(missing) {
        let said = sandbox::end_of(&[&output.stdout[..], &output.stderr].concat());
        return Err(Error::Facility(format!("{}: nothing of {way}: {said}", route.name())));
    }
    Ok(lines.into_iter().map(|line| Measured { round, route, line }).collect())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn the_library_that_was_built_last_is_measured() {
        let place = tempfile::tempdir().unwrap();
        let file = |name: &str, age: u64| {
            let file = place.path().join(name);
            let written = SystemTime::now() - Duration::from_secs(age);
            fs::File::create(&file).unwrap().set_modified(written).unwrap();
            file.canonicalize().unwrap()
        };
        let (old, new, none) = (file("old", 20), file("new", 10), place.path().join("none"));
        assert_eq!(newest(&[&old, &new]), Some(new.clone()));
        assert_eq!(newest(&[&new, &old, &none]), Some(new));
        assert_eq!(newest(&[&none]), None);
    }
}
