//! The limit of a driver's messages, as far as it is known before the driver is open.

use am_wire::Framing;

use crate::driver::Driver;
use crate::driver::datagram::DatagramLayout;
use crate::plan::{DriverOptions, SideInfo};

/// The most payload that a frame of this driver carries between these sides; `None` if it is unknown.
pub(crate) fn most(driver: Driver, how: DriverOptions, near: &SideInfo, far: &SideInfo) -> Option<usize> {
    let mtu = far.carries(near.mtu?);
    match driver {
        // The network's limit is known once it is open.
        Driver::Am => Some(mtu.saturating_sub(how.framing.fixed().map_or(0, Framing::cost))),
        Driver::Raw => Some(mtu),
        Driver::Udp => near.ip_towards(far).map(|(own, _)| DatagramLayout::new(mtu, own.is_ipv4()).largest),
        // These have their own limits.
        Driver::Cacheline | Driver::Row(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::FramingArg;

    #[test]
    fn what_goes_is_known_before_a_driver_is_open() {
        let place = |ipv4: Option<[u8; 4]>, mtu| {
            let (name, ipv4, ipv6) = (String::new(), ipv4.map(Into::into), Some("fe80::1".parse().unwrap()));
            SideInfo { name, address: [2; 6], ipv4, ipv6, mtu, ..SideInfo::default() }
        };
        let (four, six) = (place(Some([10, 0, 0, 1]), Some(3000)), place(None, Some(1500)));
        let of = |driver, near: &SideInfo, far: &SideInfo| most(driver, DriverOptions::default(), near, far);
        assert_eq!(
            [Driver::Am, Driver::Raw, Driver::Udp].map(|driver| of(driver, &four, &six)),
            [1500, 1500, 1452].map(Some)
        );
        assert_eq!([Driver::Raw, Driver::Udp].map(|driver| of(driver, &four, &four)), [3000, 2972].map(Some));
        assert_eq!(of(Driver::Raw, &place(None, None), &six), None);
        let plain = DriverOptions { framing: FramingArg::Plain, ..DriverOptions::default() };
        assert_eq!(most(Driver::Am, plain, &four, &six), Some(1488));
    }
}
