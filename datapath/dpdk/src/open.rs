//! From a name to an open port, step by step. Each step has its own errors. A failed attempt closes everything that it
//! opened.

use std::io;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use am_ring::{Frame, Pool};
use am_wire::frame::ETHERNET_HEADER;
use am_wire::{Address, EtherType};

use crate::abi::Wanted;
use crate::eal::{self, Eal, Started};
use crate::ffi::{Chunks, Port, Probed, RX_LEVEL};
use crate::{DpdkOpenError, DpdkOptions, log, pci, stale_sockets};

/// The default number of frames: twice as many as the queues take, but at least this many.
const MIN_DEFAULT_FRAMES: u32 = 8192;

/// Bytes that drivers expect each buffer to have at least (`RTE_MBUF_DEFAULT_DATAROOM`).
const MIN_ROOM: u32 = 2048;
/// Many NICs fill a buffer in units of 1 KiB, and leave the rest empty.
const ROOM_UNIT: u32 = 1024;
/// Bytes of virtio's header in front of a frame.
const VIRTIO_HEADER: u32 = 12;

/// An open port and its properties. Closed when dropped.
pub(crate) struct Opened {
    device: String,
    pub(crate) port: ManuallyDrop<Port>,
    /// Frames that no device may use, held for as long as the port is open: see [`Chunks::take_discontiguous`].
    _discontiguous: Vec<Frame>,
    pub(crate) pool: Pool,
    pub(crate) address: Address,
    pub(crate) max_frame: usize,
    pub(crate) mode: String,
    /// Whether the driver is memif: sent frames stay in this end's ring until the other end fetches them.
    pub(crate) is_memif: bool,
    /// Whether it is a client of memif: that connects to its server only when it starts.
    pub(crate) reconnects_by_restart: bool,
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut eal = eal::lock();
        // SAFETY: it is not used again.
        unsafe { ManuallyDrop::take(&mut self.port) }.close(&self.pool);
        eal.devices.retain(|device| *device != self.device);
    }
}

/// Open a device.
///
/// # Errors
/// See [`DpdkOpenError`].
pub(crate) fn open(options: &DpdkOptions) -> Result<Opened, DpdkOpenError> {
    let mut eal = eal::lock();
    // 1. Start DPDK, once a process.
    let started = eal.start(options)?;
    let device = options.device().to_owned();
    if eal.devices.contains(&device) {
        return Err(DpdkOpenError::Busy { device });
    }
    log::clear();

    // 2. Find or make the device and its port.
    stale_sockets::remove_stale(options);
    let probed = probe(started, options)?;
    let (address, driver) = (Address(probed.port.address), probed.driver());
    if address.is_group() || address.to_u64() == 0 {
        return Err(DpdkOpenError::Address { device, address });
    }

    // 3. Allocate frames. The device needs receive buffers before it starts.
    let max_frame = usize::from(probed.port.mtu) + ETHERNET_HEADER;
    let mut blanks = usize::from(probed.port.rx) + RX_LEVEL;
    let chunks = Arc::new(chunks(&mut eal, started, options, &probed)?);
    let pool = chunks.pool().map_err(|source| refused("making a pool of frames for", options, source))?;
    let torn = chunks.take_discontiguous(&pool);
    let mut port = Port::new(probed, chunks);
    while blanks > 0
        && let given @ 1.. = port.give_rx_buffers(&pool, blanks)
    {
        blanks -= given;
    }

    // 4. Start the port. From here on frames arrive.
    let mut port = start(port, &pool, options)?;
    let mode = mode(&driver, started.huge, steering(&mut port, options.ethertype));
    tracing::info!(device, mode, %address, max_frame, torn = torn.len(), "opened");
    eal.devices.push(device.clone());
    let is_memif = driver == "net_memif";
    Ok(Opened {
        device,
        port: ManuallyDrop::new(port),
        _discontiguous: torn,
        pool,
        address,
        max_frame,
        mode,
        is_memif,
        reconnects_by_restart: is_memif && options.argument("role") != Some("server"),
    })
}

fn probe(started: Started, options: &DpdkOptions) -> Result<Probed, DpdkOpenError> {
    let wanted = Wanted { rx: options.rx, tx: options.tx, mtu: options.mtu };
    Probed::new(started.table, &options.arguments, options.device(), wanted).map_err(|source| match options.is_pci() {
        true => {
            let (device, advice) = (options.device().to_owned(), pci::advice(options.device(), started.huge));
            DpdkOpenError::Pci { device, advice, source, why: log::complaints() }
        }
        false => refused("making the device", options, source),
    })
}

/// Start a port. If that fails, close it, so that all of its frames return and their memory is free again.
fn start(mut port: Port, pool: &Pool, options: &DpdkOptions) -> Result<Port, DpdkOpenError> {
    if let Err(source) = port.open() {
        let error = refused("opening", options, source);
        port.close(pool);
        return Err(error);
    }
    port.return_surplus(pool);
    Ok(port)
}

fn refused(doing: &'static str, options: &DpdkOptions, source: io::Error) -> DpdkOpenError {
    DpdkOpenError::Refused { doing, device: options.arguments.clone(), source, why: log::complaints() }
}

fn chunks(eal: &mut Eal, started: Started, options: &DpdkOptions, probed: &Probed) -> Result<Chunks, DpdkOpenError> {
    let (rx, tx) = (u32::from(probed.port.rx), u32::from(probed.port.tx));
    let least = rx + tx + 2 * RX_LEVEL as u32;
    let frames = if options.frames == 0 { MIN_DEFAULT_FRAMES.max(2 * least) } else { options.frames };
    if frames < least {
        return Err(DpdkOpenError::Frames { device: options.device().into(), frames, least });
    }
    // Drivers insist on room for tags that we never use, and for virtio's own header.
    let room = (u32::from(probed.port.mtu) + 2 * ETHERNET_HEADER as u32 + VIRTIO_HEADER)
        .max(MIN_ROOM)
        .next_multiple_of(ROOM_UNIT);
    let name = format!("am{}", eal.pools);
    eal.pools += 1;
    Chunks::new(started.table, &name, frames, room, probed.port.socket).map_err(|source| {
        let hint = match started.huge {
            true => "`sysctl -w vm.nr_hugepages=1024` gives it more",
            false => "am.memory=1024 gives it 1 GiB, where the first device that is opened says so",
        };
        DpdkOpenError::Memory { frames, room, hint, source, why: log::complaints() }
    })
}

/// Let the device filter by our EtherTypes. Returns what filters: the device, or our own code.
fn steering(port: &mut Port, ethertype: EtherType) -> &'static str {
    let both = [ethertype.hidden(), ethertype.plain()].into_iter().all(|ethertype| port.install_flow_rule(ethertype));
    if both { "flow rules" } else { "software steering" }
}

fn mode(driver: &str, huge: bool, steering: &str) -> String {
    let driver = driver.strip_prefix("net_").unwrap_or(driver);
    let pages = if huge { "huge pages" } else { "no huge pages" };
    format!("{driver}, {pages}, {steering}")
}
