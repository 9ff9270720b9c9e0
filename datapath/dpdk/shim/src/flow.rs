//! Flow rules of the device: they choose the frames for our queue.

use std::ffi::c_int;
use std::ptr;

use crate::dpdk::{self, rte_flow_action, rte_flow_item};

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
    if rule.is_null() { crate::eal::error() } else { 0 }
}

fn item(kind: dpdk::rte_flow_item_type) -> rte_flow_item {
    rte_flow_item { type_: kind, ..rte_flow_item::default() }
}
