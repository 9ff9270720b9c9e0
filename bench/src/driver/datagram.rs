//! How a UDP datagram lies in frames: whole, or in fragments.

/// The longest IPv4 packet, and the longest payload of an IPv6 packet.
const MAX_IP_PACKET: usize = 65_535;
const UDP: usize = 8;

/// The datagrams of an interface with one MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatagramLayout {
    /// The most payload in one frame.
    pub(crate) largest: usize,
    /// The most payload in one datagram.
    pub(crate) most: usize,
    /// Bytes of the datagram in each fragment, with its UDP header.
    fragment: usize,
}

impl DatagramLayout {
    /// Over IPv4, or else IPv6.
    pub(crate) fn new(mtu: usize, ipv4: bool) -> DatagramLayout {
        // IPv6 marks fragments by a header of 8 bytes.
        let (header, mark, most) = if ipv4 { (20, 0, MAX_IP_PACKET - 20 - UDP) } else { (40, 8, MAX_IP_PACKET - UDP) };
        // Fragments begin at multiples of eight.
        let fragment = (mtu.saturating_sub(header + mark) & !7).max(8);
        let largest = mtu.saturating_sub(header + UDP);
        DatagramLayout { largest: largest.min(most), most, fragment }
    }

    /// The frames of a datagram with this payload.
    pub(crate) fn frames(&self, size: usize) -> usize {
        if size <= self.largest { 1 } else { (size + UDP).div_ceil(self.fragment) }
    }

    /// The payload that fills this many frames.
    pub(crate) fn filling(&self, frames: usize) -> usize {
        if frames <= 1 { self.largest } else { frames * self.fragment - UDP }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_as_ip_makes_them() {
        for (ipv4, largest, two, most) in [(true, 1472, 2952, 65_507), (false, 1452, 2888, 65_527)] {
            let layout = DatagramLayout::new(1500, ipv4);
            assert_eq!((layout.filling(1), layout.filling(2), layout.most), (largest, two, most));
            assert_eq!([largest, largest + 1, two, two + 1].map(|size| layout.frames(size)), [1, 2, 2, 3]);
        }
    }

    #[test]
    fn a_long_mtu_holds_the_longest_datagram() {
        let layout = DatagramLayout::new(65_535, true);
        assert_eq!((layout.largest, layout.frames(layout.most)), (65_507, 1));
    }
}
