//! The settings of the transport: `dpdk:DEVICE[,DPDK's arguments][,am.SETTING=VALUE]`.

use std::str::FromStr;

use am_transport::{NameError, TransportName};
use am_wire::EtherType;

/// Our own settings have this prefix; no driver of DPDK has an argument with a dot.
const PREFIX: &str = "am.";
const EXAMPLE: &str = "net_memif0,role=server,socket=/run/am.sock";
const SETTINGS: &str =
    "our settings are am.frames, am.mtu, am.rx, am.tx, am.pages (huge or normal), am.memory (MiB) and am.file-prefix";

/// The pages of DPDK's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PageKind {
    /// Huge pages if the system has enough free, otherwise normal ones.
    #[default]
    IfAvailable,
    /// Huge pages; an error if there are too few.
    Huge,
    /// Normal pages.
    Normal,
}

/// The settings of the transport.
///
/// ```
/// let name: am_transport::TransportName = "dpdk:net_memif0,role=client,am.frames=8192".parse()?;
/// let options = am_dpdk::DpdkOptions::of(&name)?;
/// assert_eq!((options.device(), options.frames), ("net_memif0", 8192));
/// assert_eq!(options.arguments, "net_memif0,role=client");
/// # Ok::<(), am_transport::NameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DpdkOptions {
    /// The device as DPDK expects it: its name and arguments.
    pub arguments: String,
    /// The network's EtherTypes.
    pub ethertype: EtherType,
    /// `am.frames`: the number of frames, those of the device's queues included; 0: as many as suit the queues.
    pub frames: u32,
    /// `am.mtu`: bytes after the Ethernet header; 0: the device's own MTU.
    pub mtu: u16,
    /// `am.rx`: entries of the receive queue, as far as the driver allows; 0: the driver's default.
    pub rx: u16,
    /// `am.tx`: entries of the transmit queue, likewise.
    pub tx: u16,
    /// `am.pages`: the pages of DPDK's memory. The first device that a process opens decides.
    pub pages: PageKind,
    /// `am.memory`: MiB for all devices of a process, in normal pages. The first device decides.
    pub memory: u32,
    /// `am.file-prefix`: DPDK's name for this process; empty: made of its process id. The first device decides.
    pub file_prefix: String,
}

impl DpdkOptions {
    /// Default settings for this device, named as DPDK does: `net_tap0,iface=am0`.
    pub fn new(arguments: impl Into<String>) -> DpdkOptions {
        DpdkOptions {
            arguments: arguments.into(),
            ethertype: EtherType::DEFAULT,
            frames: 0,
            mtu: 0,
            rx: 0,
            tx: 0,
            pages: PageKind::default(),
            memory: 512,
            file_prefix: String::new(),
        }
    }

    /// Read the settings from a transport's name.
    ///
    /// # Errors
    /// The name has no device, or an unknown or invalid setting.
    pub fn of(name: &TransportName) -> Result<DpdkOptions, NameError> {
        // Arguments may repeat: for some drivers that is a list.
        let (device, settings) = name.settings_with_many(EXAMPLE, |key| !key.starts_with(PREFIX))?;
        if device.is_empty() {
            return Err(name.bad_setting("", None, format!("write dpdk:{EXAMPLE}, for instance")));
        }
        let mut options = DpdkOptions::new(device);
        for (key, value) in settings {
            match key.strip_prefix(PREFIX) {
                Some(ours) => options.set(name, ours, value.unwrap_or_default())?,
                None => {
                    options.arguments.push(',');
                    options.arguments.push_str(key);
                    value.iter().for_each(|value| options.arguments.extend(["=", value]));
                }
            }
        }
        Ok(options)
    }

    fn set(&mut self, name: &TransportName, key: &str, value: &str) -> Result<(), NameError> {
        let bad = |hint| name.bad_setting(&format!("{PREFIX}{key}"), Some(value), hint);
        match key {
            "frames" => self.frames = number(value).ok_or_else(|| bad("a number of frames, 4096 for instance"))?,
            "mtu" => self.mtu = number(value).ok_or_else(|| bad("a number of bytes, 1500 for instance"))?,
            "rx" => self.rx = number(value).ok_or_else(|| bad("a number of entries, 1024 for instance"))?,
            "tx" => self.tx = number(value).ok_or_else(|| bad("a number of entries, 1024 for instance"))?,
            "memory" => self.memory = number(value).ok_or_else(|| bad("a number of MiB, 512 for instance"))?,
            "file-prefix" if is_word(value) => self.file_prefix = value.into(),
            "file-prefix" => return Err(bad("letters, digits and hyphens")),
            "pages" => {
                self.pages = match value {
                    "huge" => PageKind::Huge,
                    "normal" => PageKind::Normal,
                    _ => return Err(bad("huge or normal; leave it out for huge ones if there are any")),
                }
            }
            _ => return Err(bad(SETTINGS)),
        }
        Ok(())
    }

    /// The device's own name: `net_memif0`, `0000:03:00.0`.
    pub fn device(&self) -> &str {
        self.arguments.split(',').next().unwrap_or_default()
    }

    /// The value of one of DPDK's arguments.
    pub(crate) fn argument(&self, key: &str) -> Option<&str> {
        let arguments = self.arguments.split(',').skip(1);
        arguments.filter_map(|argument| argument.split_once('=')).find(|(its, _)| *its == key).map(|(_, value)| value)
    }

    /// Whether it is a PCI device: `0000:03:00.0`, `03:00.0`.
    pub fn is_pci(&self) -> bool {
        let device = self.device();
        device.contains(':') && device.chars().all(|c| c.is_ascii_hexdigit() || ":.".contains(c))
    }
}

/// A number above 0.
fn number<T: FromStr + PartialEq + Default>(value: &str) -> Option<T> {
    value.parse().ok().filter(|number| *number != T::default())
}

fn is_word(value: &str) -> bool {
    !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rest: &str) -> Result<DpdkOptions, String> {
        let name: TransportName = format!("dpdk:{rest}").parse().unwrap();
        DpdkOptions::of(&name).map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_of_dpdk_stay_as_they_are() {
        let text = "net_virtio_user0,path=/run/x.sock,mac=02:00:00:00:00:01,queues=1,flag,list=[1,2]";
        assert_eq!(of(text).unwrap(), DpdkOptions::new(text));
        assert_eq!(of(text).unwrap().argument("path"), Some("/run/x.sock"));
        assert_eq!(of(text).unwrap().argument("iface"), None);
    }

    #[test]
    fn ours_are_taken_out_wherever_they_stand() {
        let options = of("net_memif0,am.frames=512,role=server,am.pages=normal,id=3,am.file-prefix=a-1").unwrap();
        assert_eq!(options.arguments, "net_memif0,role=server,id=3");
        assert_eq!((options.frames, options.pages, &*options.file_prefix), (512, PageKind::Normal, "a-1"));
    }

    #[test]
    fn a_setting_that_makes_no_sense_says_what_would() {
        for text in ["net_memif0,am.frames=0", "net_memif0,am.frames", "net_memif0,am.pages=big", "net_memif0,am.x=1"] {
            assert!(of(text).unwrap_err().contains("am."), "{text}");
        }
        assert!(of("net_memif0,am.file-prefix=../x").unwrap_err().contains("letters"));
        assert!(of(",role=server").unwrap_err().contains("net_memif0"));
    }

    #[test]
    fn pci_devices_are_known_by_their_form() {
        assert!(of("0000:03:00.0").unwrap().is_pci() && of("03:00.1,arg=1").unwrap().is_pci());
        assert!(!of("net_memif0,mac=02:00:00:00:00:01").unwrap().is_pci());
    }
}
