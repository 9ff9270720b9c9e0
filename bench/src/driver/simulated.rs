//! Bare frames through the NICs of a simulated network.

use std::thread::sleep;
use std::time::{Duration, Instant};

use am_netdev_sim::live::{self, LiveNic, SimSettings};
use am_transport::TransportName;

use super::am::facility;
use super::memory::Memory;
use crate::error::Error;
use crate::watch::Watch;

/// Less than half of a NIC's ring, as for other bare frames.
const WINDOW: u64 = 256;
/// How long the other side may take to open its end, and how often this side looks.
const PEER_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// One side of the driver on the network of this name, once the other side is there.
///
/// # Errors
/// The other side does not come, or there is no such network.
pub(crate) fn open(on: &TransportName, watch: &Watch) -> Result<Memory<LiveNic>, Error> {
    let settings = SimSettings::from_name(on).map_err(|error| Error::Usage(error.to_string()))?;
    let end = live::open(&settings).map_err(facility)?;
    let begin = Instant::now();
    loop {
        watch.check()?;
        // A side that returns after a driver has its old place, and so its old address.
        match end.peer_addresses().first() {
            Some(to) => return Ok(Memory::over(end, *to, Some(WINDOW))),
            None if begin.elapsed() > PEER_TIMEOUT => return Err(Error::Lost(format!("nobody else is on {on}"))),
            None => sleep(RETRY_INTERVAL),
        }
    }
}
