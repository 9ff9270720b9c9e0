//! The limit of a driver's messages, as far as it is known before the driver is open.

use am_wire::Framing;

use crate::plan::{How, Place};
use crate::via::Via;
use crate::via::datagram::Layout;

/// The most payload that a frame of this driver carries between these sides; `None` if it is unknown.
pub(crate) fn most(via: Via, how: How, near: &Place, far: &Place) -> Option<usize> {
    let mtu = far.carries(near.mtu?);
    match via {
        // The network's limit is known once it is open.
        Via::Am => Some(mtu.saturating_sub(how.framing.fixed().map_or(0, Framing::cost))),
        Via::Raw => Some(mtu),
        Via::Udp => near.ip_towards(far).map(|(own, _)| Layout::new(mtu, own.is_ipv4()).largest),
        // These have their own limits.
        Via::Cacheline | Via::Row(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::FramingArg;

    #[test]
    fn what_goes_is_known_before_a_via_is_open() {
        let place = |ipv4: Option<[u8; 4]>, mtu| {
            let (name, ipv4, ipv6) = (String::new(), ipv4.map(Into::into), Some("fe80::1".parse().unwrap()));
            Place { name, address: [2; 6], ipv4, ipv6, mtu, ..Place::default() }
        };
        let (four, six) = (place(Some([10, 0, 0, 1]), Some(3000)), place(None, Some(1500)));
        let of = |via, near: &Place, far: &Place| most(via, How::default(), near, far);
        assert_eq!([Via::Am, Via::Raw, Via::Udp].map(|via| of(via, &four, &six)), [1500, 1500, 1452].map(Some));
        assert_eq!([Via::Raw, Via::Udp].map(|via| of(via, &four, &four)), [3000, 2972].map(Some));
        assert_eq!(of(Via::Raw, &place(None, None), &six), None);
        let plain = How { framing: FramingArg::Plain, ..How::default() };
        assert_eq!(most(Via::Am, plain, &four, &six), Some(1488));
    }
}
