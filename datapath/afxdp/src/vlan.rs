//! A NIC, or the sending end of a veth, may remove 802.1Q tags from frames and pass them beside the frame. The XDP
//! program does not see such a tag, so it takes frames of another VLAN for the node's own. This module warns of that.

use std::fs;

use crate::ifreq::Query;
use crate::interface::Interface;

/// A note, if VLAN devices use the interface and tags are removed from its frames.
pub(crate) fn note(interface: &Interface) -> Option<String> {
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
    use crate::chunk_layout::tests::interface;

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
        let nic = interface(1500);
        let said = describe(&nic, &devices(LIST, "eth1"));
        assert!(said.contains("eth1.5, storage") && said.ends_with("`ethtool -K eth1 rxvlan off`"), "{said}");
        let veth = Interface { driver: "veth".to_owned(), ..nic };
        assert!(describe(&veth, &devices(LIST, "eth1")).ends_with("`ethtool -K PEER txvlan off` there"));
    }
}
