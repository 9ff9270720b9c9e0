//! Ports: found, opened, restarted and closed.

use std::ffi::{CStr, c_char, c_int};
use std::ptr::{self, with_exposed_provenance};
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Release;

use crate::abi::{Counts, Port, Stats, Wanted};
use crate::dpdk::{self, rte_flow_action, rte_flow_item};
use crate::eal;

/// Entries of a queue if the driver has no default.
const ENTRIES: u16 = 512;

/// Drivers that learn on DPDK's interrupt thread that a peer has gone.
const MEMIF: &CStr = c"net_memif";
const VIRTIO_USER: &CStr = c"net_virtio_user";

/// Return the result of a call that failed.
macro_rules! check {
    ($call:expr) => {
        match $call {
            result if result < 0 => return result,
            result => result,
        }
    };
}

/// See [`Table::probe`](crate::abi::Table::probe).
///
/// # Safety
/// `device` and `name` are strings, `port` may be written.
pub(crate) unsafe extern "C" fn probe(
    device: *const c_char,
    name: *const c_char,
    wanted: Wanted,
    port: *mut Port,
) -> c_int {
    let mut found = Port::default();
    // SAFETY: DPDK has been started; the caller guarantees the strings.
    unsafe {
        check!(dpdk::rte_dev_probe(device));
        check!(dpdk::rte_eth_dev_get_port_by_name(name, &mut found.id));
    }
    let result = configure(wanted, &mut found);
    if result < 0 {
        // SAFETY: the port was probed above, and is not open.
        unsafe { close(found.id) };
        return result;
    }
    // SAFETY: guaranteed by the caller.
    unsafe { port.write(found) };
    0
}

fn configure(wanted: Wanted, port: &mut Port) -> c_int {
    let mut info = dpdk::rte_eth_dev_info::default();
    let mut settings = dpdk::rte_eth_conf::default();
    // SAFETY: the port exists; all arguments live until the call returns.
    unsafe {
        check!(dpdk::rte_eth_dev_info_get(port.id, &mut info));
        check!(dpdk::rte_eth_dev_get_mtu(port.id, &mut port.mtu));
        if wanted.mtu != 0 {
            port.mtu = wanted.mtu;
        }
        settings.rxmode.mtu = u32::from(port.mtu);
        // virtio-user watches its socket in any case once a peer has gone, but it ends that only in a port that reports
        // changes of its link. Otherwise DPDK's interrupt thread goes on with a descriptor that is closed, and ends the
        // process.
        let reports = *info.dev_flags & dpdk::am_flag_AM_REPORTS_LINK != 0;
        settings.intr_conf.set_lsc((reports && CStr::from_ptr(info.driver_name) == VIRTIO_USER).into());
        check!(dpdk::rte_eth_dev_configure(port.id, 1, 1, &settings));
        port.rx = entries(wanted.rx, info.default_rxportconf.ring_size);
        port.tx = entries(wanted.tx, info.default_txportconf.ring_size);
        check!(dpdk::rte_eth_dev_adjust_nb_rx_tx_desc(port.id, &mut port.rx, &mut port.tx));
        let mut address = dpdk::rte_ether_addr::default();
        check!(dpdk::rte_eth_macaddr_get(port.id, &mut address));
        port.address = address.addr_bytes;
        port.socket = dpdk::rte_eth_dev_socket_id(port.id);
        // The last byte stays zero and ends the string.
        let room = port.driver.len() - 1;
        let driver = (0..room).map(|at| *info.driver_name.add(at)).take_while(|&byte| byte != 0);
        port.driver.iter_mut().zip(driver).for_each(|(place, byte)| *place = byte);
    }
    0
}

fn entries(wanted: u16, default: u16) -> u16 {
    [wanted, default].into_iter().find(|&entries| entries != 0).unwrap_or(ENTRIES)
}

/// See [`Table::open`](crate::abi::Table::open).
///
/// # Safety
/// `port` was found by [`probe`]. `pool` was made by `am_pool_make`, and lives until the port is closed.
pub(crate) unsafe extern "C" fn open(port: *const Port, pool: *mut Counts) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let Port { id, rx, tx, socket, .. } = *port;
        dpdk::am_open(id, pool, rx, tx, socket as u32)
    }
}

/// See [`Table::close`](crate::abi::Table::close).
///
/// # Safety
/// [`probe`] found the port, and it is not used any more.
pub(crate) unsafe extern "C" fn close(port: u16) -> c_int {
    let mut info = dpdk::rte_eth_dev_info::default();
    // SAFETY: guaranteed by the caller; a driver's name is a string.
    let driver = unsafe {
        check!(dpdk::rte_eth_dev_info_get(port, &mut info));
        CStr::from_ptr(info.driver_name)
    };
    let close = || stop_and_remove(port, info.device);
    // Their handlers of disconnections take no lock against a close.
    if ![MEMIF, VIRTIO_USER].contains(&driver) {
        return close();
    }
    // virtio-user's handler sets an alarm, which uses the port. If it is running now, that alarm comes before the close.
    eal::there(|| 0);
    let closed = eal::there(close);
    eal::settle();
    closed
}

/// DPDK complains about ports that were never opened, or support no rules. Both are closed completely all the same.
fn stop_and_remove(port: u16, device: *mut dpdk::rte_device) -> c_int {
    let mut error = dpdk::rte_flow_error::default();
    // SAFETY: guaranteed by `close`. A device outlives its ports.
    unsafe {
        dpdk::rte_flow_flush(port, &mut error);
        dpdk::rte_eth_dev_stop(port);
        dpdk::rte_eth_dev_close(port);
        dpdk::rte_dev_remove(device)
    }
}

/// See [`Table::restart`](crate::abi::Table::restart).
///
/// # Safety
/// The port is open. `done` is 0, and lives until it changes or the port is closed.
pub(crate) unsafe extern "C" fn restart(port: u16, done: *const AtomicI32) -> c_int {
    let done = done.expose_provenance();
    eal::later(move || {
        // SAFETY: the port is not in use. For a port that was closed meanwhile, the calls return an error.
        let result = unsafe {
            dpdk::rte_eth_dev_stop(port);
            dpdk::rte_eth_dev_start(port)
        };
        let result = if result < 0 { result } else { 1 };
        // SAFETY: guaranteed by the caller. A close runs on this thread too, so it waits for this.
        unsafe { (*with_exposed_provenance::<AtomicI32>(done)).store(result, Release) };
    })
}

/// See [`Table::link`](crate::abi::Table::link).
///
/// # Safety
/// The port is open.
pub(crate) unsafe extern "C" fn link(port: u16) -> c_int {
    let mut link = dpdk::rte_eth_link::default();
    // SAFETY: guaranteed by the caller; the union's fields have the same bits.
    unsafe {
        if dpdk::rte_eth_dev_is_removed(port) != 0 {
            return dpdk::am_error();
        }
        check!(dpdk::rte_eth_link_get_nowait(port, &mut link));
        c_int::from(link.link_status() == dpdk::RTE_ETH_LINK_UP as u16)
    }
}

/// See [`Table::stats`](crate::abi::Table::stats).
///
/// # Safety
/// The port is open, `stats` may be written.
pub(crate) unsafe extern "C" fn stats(port: u16, stats: *mut Stats) -> c_int {
    let mut all = dpdk::rte_eth_stats::default();
    // SAFETY: guaranteed by the caller.
    unsafe {
        check!(dpdk::rte_eth_stats_get(port, &mut all));
        let (rx_errors, tx_errors) = (all.ierrors, all.oerrors);
        stats.write(Stats { missed: all.imissed, rx_errors, no_memory: all.rx_nombuf, tx_errors });
    }
    0
}

/// See [`Table::flow`](crate::abi::Table::flow).
///
/// # Safety
/// The port is open.
pub(crate) unsafe extern "C" fn flow(port: u16, ethertype: u16) -> c_int {
    let mut attributes = dpdk::rte_flow_attr::default();
    attributes.set_ingress(1);
    let (mut wanted, mut mask) = (dpdk::rte_flow_item_eth::default(), dpdk::rte_flow_item_eth::default());
    wanted.__bindgen_anon_1.hdr.ether_type = ethertype.to_be();
    mask.__bindgen_anon_1.hdr.ether_type = u16::MAX;
    let queue = dpdk::rte_flow_action_queue { index: 0 };
    let mut ethernet = item(dpdk::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_ETH);
    ethernet.spec = ptr::from_ref(&wanted).cast();
    ethernet.mask = ptr::from_ref(&mask).cast();
    let pattern = [ethernet, item(dpdk::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_END)];
    let actions = [
        rte_flow_action {
            type_: dpdk::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_QUEUE,
            conf: ptr::from_ref(&queue).cast(),
        },
        rte_flow_action { type_: dpdk::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_END, conf: ptr::null() },
    ];
    let mut error = dpdk::rte_flow_error::default();
    // SAFETY: everything that the call reads lives until it returns. The rule is removed with the port.
    let rule = unsafe { dpdk::rte_flow_create(port, &attributes, pattern.as_ptr(), actions.as_ptr(), &mut error) };
    // SAFETY: the function reads a variable of this thread.
    if rule.is_null() { unsafe { dpdk::am_error() } } else { 0 }
}

fn item(kind: dpdk::rte_flow_item_type) -> rte_flow_item {
    rte_flow_item { type_: kind, ..rte_flow_item::default() }
}

/// The result of a call that the driver does not support (`ENOTSUP`).
const NOT_SUPPORTED: c_int = -95;

/// See [`Table::accept`](crate::abi::Table::accept).
///
/// # Safety
/// The port is open, `address` may be read.
pub(crate) unsafe extern "C" fn accept(port: u16, address: *const [u8; 6]) -> c_int {
    // SAFETY: guaranteed by the caller.
    let mut address = dpdk::rte_ether_addr { addr_bytes: unsafe { *address } };
    // SAFETY: the port is open, and DPDK copies the address. Without pools of queues, the pool is 0.
    let filtered = unsafe { dpdk::rte_eth_dev_mac_addr_add(port, &mut address, 0) };
    if filtered >= 0 {
        return 0;
    }
    // SAFETY: the port is open.
    match (filtered, unsafe { dpdk::rte_eth_promiscuous_enable(port) }) {
        (NOT_SUPPORTED, NOT_SUPPORTED) => 0,
        (_, result) => result.min(0),
    }
}

/// See [`Table::refuse`](crate::abi::Table::refuse).
///
/// # Safety
/// The port is open, `address` may be read.
pub(crate) unsafe extern "C" fn refuse(port: u16, address: *const [u8; 6]) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut address = dpdk::rte_ether_addr { addr_bytes: *address };
        dpdk::rte_eth_dev_mac_addr_remove(port, &mut address)
    }
}
