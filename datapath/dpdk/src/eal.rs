//! Starts DPDK. That happens once a process, and DPDK runs until the process ends.
//!
//! Its arguments, and why:
//!
//! | argument | because |
//! | --- | --- |
//! | `--in-memory`; with normal pages `--no-huge -m --no-shconf` | nothing is left in the file system, however the process ends |
//! | `--file-prefix` with the process id | several processes run side by side |
//! | `--lcores 0@CPU` | DPDK requires a core; afterwards the thread's affinity is restored |
//! | `--no-telemetry` | it would open a socket that is not used |
//! | `--no-pci`, `--iova-mode=va`; `--allow` with the device, if the first device is a PCI device | DPDK takes no device of another process |

use std::ffi::{CString, c_char};
use std::fs;
use std::io;
use std::path::Path;
use std::process;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::Pid;

use crate::options::{DpdkOptions, PageKind};
use crate::{DpdkOpenError, abi, ffi, log, shim};

/// How DPDK was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    pub(crate) table: &'static abi::Table,
    pub(crate) huge: bool,
    pci: bool,
}

/// DPDK's state, and the devices that are open. Locked while a device is opened or closed: DPDK allows one at a time.
#[derive(Debug, Default)]
pub(crate) struct Eal {
    started: Option<Result<Started, String>>,
    /// Devices that are open, by name.
    pub(crate) devices: Vec<String>,
    /// Pools made so far, used to name each of them.
    pub(crate) pools: u32,
}

/// Lock DPDK. Waits while another thread opens or closes a device.
pub(crate) fn lock() -> MutexGuard<'static, Eal> {
    static EAL: Mutex<Eal> = Mutex::new(Eal { started: None, devices: Vec::new(), pools: 0 });
    EAL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Eal {
    /// Start DPDK for these options, unless it runs.
    ///
    /// # Errors
    /// [`DpdkOpenError::Shim`], [`DpdkOpenError::HugePages`]; [`DpdkOpenError::Start`], which stays; [`DpdkOpenError::Decided`].
    pub(crate) fn start(&mut self, options: &DpdkOptions) -> Result<Started, DpdkOpenError> {
        let started = match &self.started {
            Some(started) => started.clone(),
            None => {
                let table = shim::table()?;
                let huge = use_huge(options.pages)?;
                self.started.insert(start(Started { table, huge, pci: options.is_pci() }, options)).clone()
            }
        };
        let started = started.map_err(|why| DpdkOpenError::Start { why })?;
        started.check(options)?;
        Ok(started)
    }
}

impl Started {
    /// # Errors
    /// [`DpdkOpenError::Decided`]: DPDK was started for another kind of device.
    fn check(&self, options: &DpdkOptions) -> Result<(), DpdkOpenError> {
        let decided = |wanted| Err(DpdkOpenError::Decided { device: options.device().into(), wanted });
        match options.pages {
            _ if options.is_pci() && !self.pci => decided("PCI devices"),
            PageKind::Huge if !self.huge => decided("huge pages"),
            PageKind::Normal if self.huge => decided("normal pages"),
            _ => Ok(()),
        }
    }
}

fn start(wanted: Started, options: &DpdkOptions) -> Result<Started, String> {
    log::clear();
    check_files(options)?;
    let us = Pid::from_raw(0);
    let before = sched_getaffinity(us).map_err(|error| format!("reading this thread's CPU affinity: {error}"))?;
    let arguments = arguments(&wanted, options, first_cpu(&before));
    tracing::debug!(?arguments, "starting DPDK");
    let result = ffi::start(wanted.table, leak_c_strings(arguments));
    // DPDK has pinned the thread to that core.
    let restored = sched_setaffinity(us, &before);
    result.map_err(|error| format!("{error}: {}{}", log::complaints(), advice(&wanted, options, &error)))?;
    restored.map_err(|error| format!("restoring this thread's CPU affinity: {error}"))?;
    Ok(wanted)
}

/// DPDK keeps its memory, and a little more, in files. The system ends a process that exceeds the limit of a file's
/// size, so check that first.
fn check_files(options: &DpdkOptions) -> Result<(), String> {
    const MORE: u64 = 64;
    let (most, _) =
        getrlimit(Resource::RLIMIT_FSIZE).map_err(|error| format!("reading the limit of a file's size: {error}"))?;
    let needs = u64::from(options.memory) + MORE;
    match most >> 20 {
        most if most < needs => Err(format!(
            "DPDK needs files of up to {needs} MiB, and this process may make files of {most} MiB: \
            `ulimit -f unlimited` raises that, a smaller am.memory={} (MiB) needs less",
            options.memory
        )),
        _ => Ok(()),
    }
}

/// Advice where the start failed for lack of memory.
fn advice(wanted: &Started, options: &DpdkOptions, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::OutOfMemory if !wanted.huge => {
            format!(
                "; am.memory={} (MiB) is more than this process may have: choose less, or raise the limit that `ulimit -v` or `ulimit -d` shows",
                options.memory
            )
        }
        _ => String::new(),
    }
}

fn first_cpu(set: &CpuSet) -> usize {
    (0..CpuSet::count()).find(|&cpu| set.is_set(cpu).unwrap_or(false)).unwrap_or(0)
}

fn arguments(wanted: &Started, options: &DpdkOptions, cpu: usize) -> Vec<String> {
    let prefix = match options.file_prefix.as_str() {
        "" => format!("am-{}", process::id()),
        prefix => prefix.to_owned(),
    };
    let mut all = vec!["am".to_owned(), "--no-telemetry".into()];
    all.extend([format!("--file-prefix={prefix}"), format!("--lcores=0@{cpu}")]);
    if wanted.huge {
        all.push("--in-memory".into());
    } else {
        all.extend(["--no-huge".into(), "--no-shconf".into(), "-m".into(), options.memory.to_string()]);
    }
    if wanted.pci {
        all.push(format!("--allow={}", options.arguments));
    } else {
        all.extend(["--no-pci".into(), "--iova-mode=va".into()]);
    }
    all
}

/// C strings, ended by a null. DPDK keeps them, so they are never freed.
fn leak_c_strings(arguments: Vec<String>) -> &'static mut [*mut c_char] {
    let strings = arguments.into_iter().filter_map(|argument| CString::new(argument).ok());
    strings.map(CString::into_raw).chain([ptr::null_mut()]).collect::<Vec<_>>().leak()
}

/// MiB that DPDK and a pool of default size need.
const MIN_FREE_MIB: u64 = 64;
const HUGE_PAGE_SIZES: &str = "/sys/kernel/mm/hugepages";

/// Whether to use huge pages.
///
/// # Errors
/// Huge pages are required, and too few are free.
fn use_huge(wanted: PageKind) -> Result<bool, DpdkOpenError> {
    decide(wanted, free(Path::new(HUGE_PAGE_SIZES)) >> 20)
}

fn decide(wanted: PageKind, free: u64) -> Result<bool, DpdkOpenError> {
    match wanted {
        PageKind::Normal => Ok(false),
        PageKind::IfAvailable => Ok(free >= MIN_FREE_MIB),
        PageKind::Huge if free < MIN_FREE_MIB => Err(DpdkOpenError::HugePages { free, needed: MIN_FREE_MIB }),
        PageKind::Huge => Ok(true),
    }
}

/// Free bytes in huge pages of all sizes.
fn free(sizes: &Path) -> u64 {
    let Ok(sizes) = fs::read_dir(sizes) else { return 0 };
    let of_size = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let kib: u64 = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let count: u64 = fs::read_to_string(entry.path().join("free_hugepages")).ok()?.trim().parse().ok()?;
        Some((kib << 10) * count)
    };
    sizes.flatten().filter_map(of_size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_pages_of_all_sizes_count() {
        let sizes = tempfile::tempdir().unwrap();
        for (size, count) in [("hugepages-2048kB", "3\n"), ("hugepages-1048576kB", "1\n"), ("other", "7\n")] {
            fs::create_dir(sizes.path().join(size)).unwrap();
            fs::write(sizes.path().join(size).join("free_hugepages"), count).unwrap();
        }
        assert_eq!(free(sizes.path()), (6 << 20) + (1 << 30));
        assert_eq!(free(Path::new("/nowhere")), 0);
    }

    #[test]
    fn they_are_used_where_there_are_enough() {
        assert!(decide(PageKind::IfAvailable, 64).unwrap() && !decide(PageKind::IfAvailable, 63).unwrap());
        assert!(decide(PageKind::Huge, 64).unwrap() && !decide(PageKind::Normal, 1 << 20).unwrap());
        let text = decide(PageKind::Huge, 10).unwrap_err().to_string();
        assert!(text.contains("10 MiB") && text.contains("nr_hugepages"), "{text}");
    }
}
