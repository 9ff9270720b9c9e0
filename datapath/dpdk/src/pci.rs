//! Finds out why DPDK cannot use a PCI device, from `/sys`, `/dev/vfio` and `/proc`.

use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// The device's state.
#[derive(Debug, Default, PartialEq, Eq)]
struct PciState {
    exists: bool,
    /// The kernel driver that is bound to it.
    driver: Option<String>,
    /// Another device of its IOMMU group, and the kernel driver that is bound to that.
    neighbour: Option<(String, String)>,
    /// The group's file, if this process may not open it.
    forbidden: Option<String>,
    /// The process that has the group's file open.
    holder: Option<String>,
    /// Whether `vfio` allows devices without interrupt remapping: its parameter `allow_unsafe_interrupts`.
    unsafe_interrupts: Option<bool>,
    /// Whether DPDK uses huge pages.
    huge: bool,
}

/// What to do about this device.
pub(crate) fn advice(device: &str, huge: bool) -> String {
    let state = PciState { huge, ..PciState::of(Path::new("/"), device) };
    state.advice(device)
}

fn file_name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_string_lossy().into_owned())
}

fn bound_driver(device: &Path) -> Option<String> {
    file_name(&fs::read_link(device.join("driver")).ok()?)
}

/// A device of the same IOMMU group that is bound to another driver. Bridges may stay with the kernel.
fn neighbour(device: &Path) -> Option<(String, String)> {
    let others = fs::read_dir(device.join("iommu_group/devices")).ok()?.flatten();
    let others = others.filter_map(|other| Some((file_name(&other.path())?, bound_driver(&other.path())?)));
    let mut foreign = others.filter(|(_, driver)| !["vfio-pci", "pcieport", "pci-stub"].contains(&driver.as_str()));
    foreign.find(|(name, _)| Some(name) != file_name(device).as_ref())
}

/// The file in `/dev/vfio` through which a process opens the group.
fn group_file(root: &Path, device: &Path) -> Option<PathBuf> {
    let group = file_name(&fs::read_link(device.join("iommu_group")).ok()?)?;
    Some(root.join("dev/vfio").join(group))
}

fn forbidden(file: &Path) -> Option<String> {
    let is_allowed = access(file, AccessFlags::R_OK | AccessFlags::W_OK).is_ok();
    (file.exists() && !is_allowed).then(|| file.display().to_string())
}

fn process_using(root: &Path, file: &Path) -> Option<String> {
    let is_file = |open: fs::DirEntry| fs::read_link(open.path()).is_ok_and(|target| target == file);
    let has_file_open =
        |process: &PathBuf| fs::read_dir(process.join("fd")).is_ok_and(|all| all.flatten().any(is_file));
    let process = fs::read_dir(root.join("proc")).ok()?.flatten().map(|entry| entry.path()).find(has_file_open)?;
    let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
    Some(format!("process {} ({})", file_name(&process)?, name.trim()))
}

impl PciState {
    fn of(root: &Path, device: &str) -> PciState {
        // DPDK allows the domain to be left out.
        let domain = if device.matches(':').count() == 1 { "0000:" } else { "" };
        let entry = root.join("sys/bus/pci/devices").join(format!("{domain}{device}"));
        let parameter = root.join("sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts");
        let file = group_file(root, &entry);
        PciState {
            exists: entry.exists(),
            driver: bound_driver(&entry),
            neighbour: neighbour(&entry),
            forbidden: file.as_deref().and_then(forbidden),
            holder: file.as_deref().and_then(|file| process_using(root, file)),
            unsafe_interrupts: fs::read_to_string(parameter).ok().map(|text| text.trim() == "Y"),
            huge: false,
        }
    }

    fn advice(&self, device: &str) -> String {
        let bind =
            format!("`scripts/nic bind dpdk {device}` binds it to vfio-pci for DPDK, and removes it from the kernel");
        match self.driver.as_deref() {
            _ if !self.exists => format!("there is no PCI device {device}: `scripts/nic list` shows all devices"),
            Some("vfio-pci") => self.vfio_advice(),
            Some(uio) if uio.contains("uio") && !self.huge => format!(
                "it is bound to {uio}, which needs memory at known physical addresses: huge pages (`sysctl -w vm.nr_hugepages=128`, and \
                 no am.pages=normal), and root; or use vfio-pci: `scripts/nic unbind {device}`, then {bind}"
            ),
            Some(other) if !other.contains("uio") => format!("it is bound to {other}: {bind}"),
            None => format!("it is bound to no driver: {bind}"),
            // A uio driver, with huge pages.
            Some(uio) => bound_as_needed(uio),
        }
    }

    fn vfio_advice(&self) -> String {
        if let Some((name, driver)) = &self.neighbour {
            return format!(
                "{name}, which is in the same IOMMU group, is bound to {driver}: both go to DPDK or none, `scripts/nic bind dpdk {name}`"
            );
        }
        if let Some(process) = &self.holder {
            return format!("{process} uses it, and only one process can use it: end that process first");
        }
        match &self.forbidden {
            Some(file) => format!("this user may not open {file}: run as root, or `chown USER {file}`"),
            None if self.unsafe_interrupts == Some(false) => {
                "it is bound to vfio-pci; if `dmesg` says \"No interrupt remapping support\", then `echo 1 > \
                 /sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts` where the machine's devices can be trusted, or \
                 switch the IOMMU's interrupt remapping on"
                    .to_owned()
            }
            None => bound_as_needed("vfio-pci"),
        }
    }
}

fn bound_as_needed(driver: &str) -> String {
    format!("it is bound to {driver}, as needed: DPDK may have no driver for it, or another process uses it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const DEVICE: &str = "0000:03:00.0";

    #[test]
    fn each_cause_has_its_advice() {
        let of = |driver: Option<&str>, unsafe_interrupts, huge| PciState {
            exists: true,
            driver: driver.map(str::to_owned),
            unsafe_interrupts,
            huge,
            ..PciState::default()
        };
        let neighbour = Some(("0000:03:00.1".to_owned(), "igb".to_owned()));
        let forbidden = Some("/dev/vfio/7".to_owned());
        let holder = Some("process 7 (server)".to_owned());
        for (seen, says) in [
            (PciState::default(), "there is no PCI device 0000:03:00.0"),
            (of(None, None, true), "it is bound to no driver: `scripts/nic bind dpdk 0000:03:00.0`"),
            (of(Some("igb"), None, true), "it is bound to igb: `scripts/nic bind dpdk"),
            (of(Some("vfio-pci"), Some(false), true), "echo 1 > /sys/module/vfio_iommu_type1"),
            (of(Some("vfio-pci"), Some(true), true), "as needed"),
            (
                PciState { neighbour, ..of(Some("vfio-pci"), Some(false), true) },
                "0000:03:00.1, which is in the same IOMMU group, is bound to igb",
            ),
            (PciState { holder, ..of(Some("vfio-pci"), Some(false), true) }, "process 7 (server) uses it"),
            (
                PciState { forbidden, ..of(Some("vfio-pci"), Some(false), true) },
                "may not open /dev/vfio/7: run as root",
            ),
            (of(Some("uio_pci_generic"), None, false), "vm.nr_hugepages="),
            (of(Some("uio_pci_generic"), None, true), "it is bound to uio_pci_generic, as needed"),
        ] {
            let advice = seen.advice(DEVICE);
            assert!(advice.contains(says), "`{says}` is not in: {advice}");
        }
    }

    fn entry(root: &Path, device: &str, driver: &str) -> PathBuf {
        let entry = root.join("sys/bus/pci/devices").join(device);
        fs::create_dir_all(&entry).unwrap();
        symlink(format!("../../../bus/pci/drivers/{driver}"), entry.join("driver")).unwrap();
        entry
    }

    #[test]
    fn what_the_system_shows_is_read() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(PciState::of(root.path(), DEVICE), PciState::default());
        let device = entry(root.path(), DEVICE, "vfio-pci");
        let parameters = root.path().join("sys/module/vfio_iommu_type1/parameters");
        fs::create_dir_all(&parameters).unwrap();
        fs::write(parameters.join("allow_unsafe_interrupts"), "N\n").unwrap();
        let mut expected = PciState {
            exists: true,
            driver: Some("vfio-pci".to_owned()),
            unsafe_interrupts: Some(false),
            ..PciState::default()
        };
        assert_eq!(PciState::of(root.path(), &DEVICE["0000:".len()..]), expected);

        // The device itself and a bridge do not count as neighbours.
        let group = root.path().join("sys/kernel/iommu_groups/7");
        fs::create_dir_all(group.join("devices")).unwrap();
        symlink(&group, device.join("iommu_group")).unwrap();
        symlink(&device, group.join("devices").join(DEVICE)).unwrap();
        let file = root.path().join("dev/vfio/7");
        let process = root.path().join("proc/77");
        fs::create_dir_all(process.join("fd")).unwrap();
        fs::write(process.join("comm"), "server\n").unwrap();
        symlink("/dev/null", process.join("fd/0")).unwrap();
        assert_eq!(PciState::of(root.path(), DEVICE), expected);
        symlink(&file, process.join("fd/3")).unwrap();
        expected.holder = Some("process 77 (server)".to_owned());
        let bridge = entry(root.path(), "0000:00:1c.0", "pcieport");
        symlink(&bridge, group.join("devices/0000:00:1c.0")).unwrap();
        assert_eq!(PciState::of(root.path(), DEVICE), expected);
        let other = entry(root.path(), "0000:03:00.1", "igb");
        symlink(&other, group.join("devices/0000:03:00.1")).unwrap();
        expected.neighbour = Some(("0000:03:00.1".to_owned(), "igb".to_owned()));
        assert_eq!(PciState::of(root.path(), DEVICE), expected);
    }
}
