//! The mode that the kernel granted: zero-copy or copy, native or generic, huge pages or not.

use std::fmt;
use std::fs;
use std::os::fd::RawFd;

use am_bpf::AttachMode;
use libc::xdp_options;

use crate::chunk_layout::ChunkLayout;
use crate::ifreq::Query;
use crate::interface::Interface;
use crate::umem::Memory;
use crate::{XdpOpenError, sockopt};

/// How frames move between NIC and memory, as the kernel granted it.
///
/// Its text is driver and mode: `veth copy`, `mlx5_core zero-copy`. [`Mode::attach`] says where the XDP program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The driver's name.
    pub driver: String,
    /// The NIC reads and writes our frames itself, without a copy.
    pub zero_copy: bool,
    /// Where the XDP program runs.
    pub attach: AttachMode,
    /// A frame may take several chunks of memory.
    pub multi_buffer: bool,
    /// The frames are in huge pages.
    pub huge_pages: bool,
    /// Our own thread drives the NIC's queue.
    pub busy_poll: bool,
    /// Attempts that failed, and other facts that the user should know: a sentence each.
    pub notes: Vec<String>,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.driver, if self.zero_copy { "zero-copy" } else { "copy" })
    }
}

impl Mode {
    /// The mode of a bound socket, before socket options and the program are set. `tried` lists failed attempts.
    pub(crate) fn new(
        socket: RawFd,
        interface: &Interface,
        memory: &Memory,
        tried: Vec<String>,
    ) -> Result<Mode, XdpOpenError> {
        let granted = sockopt::get::<xdp_options>(socket, libc::XDP_OPTIONS);
        let granted = granted.map_err(|error| XdpOpenError::system("asking for the mode", error))?;
        let huge = memory.huge.clone();
        let notes = tried.into_iter().chain(huge.clone().err()).chain(shorter_frames_note(interface, &memory.layout));
        Ok(Mode {
            driver: interface.driver.clone(),
            zero_copy: granted.flags & libc::XDP_OPTIONS_ZEROCOPY != 0,
            attach: AttachMode::Native,
            multi_buffer: !memory.layout.is_single_chunk(),
            huge_pages: huge.unwrap_or(false),
            busy_poll: false,
            notes: notes.chain(vlan_note(interface)).collect(),
        })
    }
}

/// A note where frames are shorter than the MTU allows.
fn shorter_frames_note(interface: &Interface, cut: &ChunkLayout) -> Option<String> {
    let (longest, mtu) = (cut.max_frame, interface.mtu);
    (longest < interface.max_frame()).then(|| {
        format!(
            "frames of at most {longest} bytes, less than the MTU of {mtu} allows: longer ones take several chunks, which \
             need Linux 6.6, a driver that supports them, and the setting"
        )
    })
}

/// A note, if VLAN devices use the interface and 802.1Q tags are removed from its frames. The NIC, or the sending end of
/// a veth, passes them beside the frame. The XDP program does not see such a tag, so it takes frames of another VLAN for
/// the node's own.
fn vlan_note(interface: &Interface) -> Option<String> {
    let devices = devices(&fs::read_to_string("/proc/thread-self/net/vlan/config").ok()?, &interface.name);
    let takes_tags =
        || Query::new(&interface.name).ok().flatten().is_some_and(|query| query.strips_vlan_tags().unwrap_or(false));
    (!devices.is_empty() && (is_veth(interface) || takes_tags())).then(|| describe(interface, &devices))
}

/// On a veth the setting of the other end counts.
fn is_veth(interface: &Interface) -> bool {
    interface.driver == "veth"
}

/// The names of the VLAN devices on this interface, from the kernel's list.
fn devices(list: &str, interface: &str) -> Vec<String> {
    let rows = list.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    rows.filter(|row| row.get(2) == Some(&interface)).map(|row| row[0].to_owned()).collect()
}

fn describe(interface: &Interface, devices: &[String]) -> String {
    let name = &interface.name;
    let why = if is_veth(interface) {
        format!("unless the other end of {name} leaves their 802.1Q tags in: `ethtool -K PEER txvlan off` there")
    } else {
        format!("as {name} takes their 802.1Q tags out: `ethtool -K {name} rxvlan off`")
    };
    format!("this node also receives frames of our EtherTypes for {}, {why}", devices.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::interface;

    #[test]
    fn text_is_driver_and_mode() {
        let mode = Mode {
            driver: "veth".to_owned(),
            zero_copy: false,
            attach: AttachMode::Native,
            multi_buffer: false,
            huge_pages: false,
            busy_poll: false,
            notes: Vec::new(),
        };
        assert_eq!(mode.to_string(), "veth copy");
        let mode = Mode { driver: "mlx5_core".to_owned(), zero_copy: true, ..mode };
        assert_eq!(mode.to_string(), "mlx5_core zero-copy");
    }

    const LIST: &str = "VLAN Dev name\t | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\n\
        eth1.5         | 5  | eth1\nstorage        | 6  | eth1\neth10.7        | 7  | eth10\n";

    #[test]
    fn vlan_devices_of_an_interface_are_found_in_the_kernels_list() {
        assert_eq!(devices(LIST, "eth1"), ["eth1.5", "storage"]);
        assert_eq!(devices(LIST, "eth10"), ["eth10.7"]);
        assert!(devices(LIST, "eth1.5").is_empty());
    }

    #[test]
    fn the_note_names_them_and_a_command() {
        let nic = interface("igb", 1500);
        let said = describe(&nic, &devices(LIST, "eth1"));
        assert!(said.contains("eth1.5, storage") && said.ends_with("`ethtool -K eth1 rxvlan off`"), "{said}");
        assert!(
            describe(&interface("veth", 1500), &devices(LIST, "eth1")).ends_with("`ethtool -K PEER txvlan off` there")
        );
    }
}
