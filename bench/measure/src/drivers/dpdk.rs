//! Bare frames over DPDK: the driver's bursts, with nothing above them.

use std::io;
use std::time::{Duration, Instant};

use am_dpdk::DpdkOptions;
use am_dpdk::raw::{BATCH, Raw};
use am_transport::TransportName;

use super::am::facility;
use super::raw::{Device, RawChannel};
use crate::channel::ChannelInfo;
use crate::error::Error;
use crate::plan::{Side, SideInfo};
use crate::watch::{PEER_TIMEOUT, Watch};

/// How often this side tries to open the device.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// After this time the far side opens again: a memif client looks for its server only once.
const LINK_TIMEOUT: Duration = Duration::from_millis(200);
/// The link of a NIC needs seconds after each opening.
const NIC_LINK_TIMEOUT: Duration = Duration::from_secs(10);

/// The address of a vhost device, which takes no `mac=`: "VHOST" in letters.
const VHOST: [u8; 6] = *b"\x56HOST\0";

/// Open the device of this name, with frames for the peer.
pub(crate) fn open(
    side: Side,
    on: &TransportName,
    (here, peer): (&SideInfo, &SideInfo),
    watch: &Watch,
) -> Result<RawChannel<Raw>, Error> {
    if [here, peer].iter().any(|place| place.address == [0; 6]) {
        let both = "bare frames over dpdk go from one address to another: give both devices one with mac=, as in \
                    mac=02:00:00:00:00:01, or leave them out with --driver am";
        return Err(Error::Usage(both.to_owned()));
    }
    let options = DpdkOptions::of(on).map_err(|error| Error::Usage(error.to_string()))?;
    let raw = joined(side, &options, watch)?;
    let info = ChannelInfo::new(raw.mode(), peer.carried(raw.max_frame()));
    let depth = raw.depth();
    Ok(RawChannel::new(raw, info, depth, here.link(), peer))
}

/// Open the device, again and again until the other end is there.
fn joined(side: Side, options: &DpdkOptions, watch: &Watch) -> Result<Raw, Error> {
    let within = match side {
        _ if options.is_pci() => NIC_LINK_TIMEOUT,
        Side::Near => PEER_TIMEOUT,
        Side::Far => LINK_TIMEOUT,
    };
    let passes = |error: &Error| matches!(error, Error::Facility(_) | Error::Lost(_));
    watch.retry(PEER_TIMEOUT, RETRY_INTERVAL, passes, || {
        let mut raw = Raw::open(options).map_err(facility)?;
        let begin = Instant::now();
        // In memory, the other end is there once the link is up.
        while !raw.is_up() {
            watch.check()?;
            if begin.elapsed() > within {
                return Err(Error::Lost(format!("nobody is at the other end of {}", options.device())));
            }
            // Some drivers meet their other end on the first receive.
            raw.receive(BATCH, &mut |_| false);
        }
        Ok(raw)
    })
}

/// The address of the device of this name: a NIC tells it, other names contain it; else all zero.
pub(crate) fn address(on: &TransportName) -> Result<[u8; 6], Error> {
    if let Some(options) = DpdkOptions::of(on).ok().filter(DpdkOptions::is_pci) {
        return Raw::open(&options).map(|nic| nic.address().0).map_err(facility);
    }
    let Ok((device, settings)) = on.settings_with_many("net_memif0", |_| true) else { return Ok([0; 6]) };
    if device.starts_with("net_vhost") {
        return Ok(VHOST);
    }
    let octets = |text: &str| {
        let octets: Option<Vec<u8>> = text.split(':').map(|octet| u8::from_str_radix(octet, 16).ok()).collect();
        octets?.try_into().ok()
    };
    Ok(settings.filter(|(key, _)| *key == "mac").find_map(|(_, value)| octets(value?)).unwrap_or_default())
}

impl Device for Raw {
    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        self.write(frame)
    }

    #[inline]
    fn send(&mut self, count: usize) -> io::Result<usize> {
        Ok(self.send(count))
    }

    #[inline]
    fn send_each(&mut self, count: usize, fill: &mut dyn FnMut(&mut [u8])) -> io::Result<usize> {
        Ok(self.send_each(count, fill))
    }

    #[inline]
    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(&mut [u8], bool) -> bool) -> io::Result<usize> {
        Ok(self.receive(budget, &mut |frame| each(frame, false)))
    }

    fn send_control(&mut self, frame: &[u8]) -> io::Result<bool> {
        self.send_control(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_known_before_anything_is_open() {
        let of = |text: &str| address(&text.parse().unwrap()).unwrap();
        assert_eq!(of("dpdk:net_memif0,role=server,mac=02:00:00:00:00:0a,id=0"), [2, 0, 0, 0, 0, 10]);
        assert_eq!(of("dpdk:net_vhost0,iface=/run/v"), VHOST);
        for unknown in ["dpdk:net_memif0", "dpdk:net_memif0,mac=02:00", "dpdk:net_memif0,mac=x:0:0:0:0:0"] {
            assert_eq!(of(unknown), [0; 6], "{unknown}");
        }
    }
}
