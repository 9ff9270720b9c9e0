//! The shared memory of a job, for its launcher: `shm` without a name opens a segment that has the job's.

use std::fs;
use std::path::PathBuf;

use am_api::transports;

/// The most members of a segment of shared memory.
pub const MAX_MEMBERS: usize = 64;

/// Where segments are.
const DIRECTORY: &str = "/dev/shm";

/// The scheme of a transport's name, its address, and its settings with the comma in front.
pub(crate) fn parts(name: &str) -> (&str, &str, &str) {
    let (place, settings) = transports::split_settings(name);
    let (scheme, address) = place.split_once(':').unwrap_or((place, ""));
    (scheme, address, settings)
}

/// The directory of the job's segment. `None` if its processes open none of the job's name.
pub fn directory(transport: &str) -> Option<PathBuf> {
    let mut all = transports::split(transport).into_iter().map(parts);
    let (.., settings) = all.find(|(scheme, address, _)| *scheme == "shm" && address.is_empty())?;
    let named = settings.split(',').filter_map(|setting| setting.strip_prefix("dir=")).next_back();
    Some(named.unwrap_or(DIRECTORY).into())
}

/// Remove what killed processes have left of the job's segment.
pub fn remove(transport: &str, job: &str) {
    let Some(directory) = directory(transport) else { return };
    let wakers = (0..MAX_MEMBERS).map(|member| format!("am-{job}.{member}.wake"));
    // Normally the last member has removed them.
    wakers.chain([format!("am-{job}.shm")]).for_each(|file| _ = fs::remove_file(directory.join(file)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_without_a_name_is_the_jobs() {
        let is = |transport: &str, want: Option<&str>| assert_eq!(directory(transport), want.map(PathBuf::from));
        is("shm", Some("/dev/shm"));
        is("shm,frames=128,dir=/dev/hugepages+udp", Some("/dev/hugepages"));
        is("udp+shm", Some("/dev/shm"));
        is("shm:lab", None);
        is("udp", None);
    }

    #[test]
    fn only_files_of_the_job_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let files = ["am-job7.shm", "am-job7.3.wake", "am-job70.shm", "am-job7.note"];
        files.iter().for_each(|file| fs::write(directory.path().join(file), "").unwrap());
        remove(&format!("shm,dir={}", directory.path().display()), "job7");
        assert_eq!(files.map(|file| directory.path().join(file).exists()), [false, false, true, true]);
    }
}
