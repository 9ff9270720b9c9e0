//! Why DPDK gets no PCI device: by what the system shows of it.

use std::fs;
use std::path::Path;

/// What the system shows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    exists: bool,
    /// The kernel's driver that has it.
    driver: Option<String>,
    /// Whether `vfio` gives devices away though their interrupts are not remapped.
    unsafe_interrupts: Option<bool>,
    /// DPDK runs in huge pages.
    huge: bool,
}

/// What is to be done about this device.
pub(crate) fn advice(device: &str, huge: bool) -> String {
    let seen = Seen { huge, ..Seen::of(Path::new("/sys"), device) };
    seen.advice(device)
}

impl Seen {
    fn of(sys: &Path, device: &str) -> Seen {
        // DPDK lets the first part be left out.
        let domain = if device.matches(':').count() == 1 { "0000:" } else { "" };
        let entry = sys.join("bus/pci/devices").join(format!("{domain}{device}"));
        let link = fs::read_link(entry.join("driver")).ok();
        let driver = link.and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned()));
        let switch = fs::read_to_string(sys.join("module/vfio_iommu_type1/parameters/allow_unsafe_interrupts"));
        Seen {
            exists: entry.exists(),
            driver,
            unsafe_interrupts: switch.ok().map(|text| text.trim() == "Y"),
            huge: false,
        }
    }

    fn advice(&self, device: &str) -> String {
        let bind = format!("`dpdk-devbind.py --bind=vfio-pci {device}` gives it to DPDK, and takes it from the kernel");
        match self.driver.as_deref() {
            _ if !self.exists => format!("there is no PCI device {device}: `dpdk-devbind.py --status` shows those there are"),
            Some("vfio-pci") if self.unsafe_interrupts == Some(false) => {
                "it is vfio-pci's; if `dmesg` says \"No interrupt remapping support\", then `echo 1 > \
                 /sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts` where the machine's devices can be trusted, or \
                 switch the IOMMU's interrupt remapping on"
                    .to_owned()
            }
            Some(uio) if uio.contains("uio") && !self.huge => format!(
                "it is {uio}'s, which needs memory at known physical addresses: huge pages (`sysctl -w vm.nr_hugepages=1024`, and \
                 am.pages=huge), or vfio-pci instead: {bind}"
            ),
            Some(other) if !other.contains("uio") && other != "vfio-pci" => format!("it is {other}'s: {bind}"),
            None => format!("no driver has it: {bind}"),
            Some(known) => format!("it is {known}'s, as it should be: DPDK may have no driver for it, or it is in use"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const DEVICE: &str = "0000:03:00.0";

    #[test]
    fn each_cause_has_its_advice() {
        let of = |driver: Option<&str>, unsafe_interrupts, huge| {
            Seen { exists: true, driver: driver.map(str::to_owned), unsafe_interrupts, huge }.advice(DEVICE)
        };
        for (advice, says) in [
            (Seen::default().advice(DEVICE), "there is no PCI device 0000:03:00.0"),
            (of(None, None, true), "no driver has it: `dpdk-devbind.py --bind=vfio-pci 0000:03:00.0`"),
            (of(Some("igb"), None, true), "it is igb's: `dpdk-devbind.py --bind=vfio-pci"),
            (of(Some("vfio-pci"), Some(false), true), "echo 1 > /sys/module/vfio_iommu_type1"),
            (of(Some("vfio-pci"), Some(true), true), "as it should be"),
            (of(Some("uio_pci_generic"), None, false), "vm.nr_hugepages="),
            (of(Some("uio_pci_generic"), None, true), "it is uio_pci_generic's, as it should be"),
        ] {
            assert!(advice.contains(says), "`{says}` is not in: {advice}");
        }
    }

    #[test]
    fn what_the_system_shows_is_read() {
        let sys = tempfile::tempdir().unwrap();
        assert_eq!(Seen::of(sys.path(), DEVICE), Seen::default());
        let entry = sys.path().join("bus/pci/devices").join(DEVICE);
        fs::create_dir_all(&entry).unwrap();
        symlink("../../../bus/pci/drivers/vfio-pci", entry.join("driver")).unwrap();
        let parameters = sys.path().join("module/vfio_iommu_type1/parameters");
        fs::create_dir_all(&parameters).unwrap();
        fs::write(parameters.join("allow_unsafe_interrupts"), "N\n").unwrap();
        let seen = Seen::of(sys.path(), &DEVICE["0000:".len()..]);
        let expected =
            Seen { exists: true, driver: Some("vfio-pci".to_owned()), unsafe_interrupts: Some(false), huge: false };
        assert_eq!(seen, expected);
    }
}
