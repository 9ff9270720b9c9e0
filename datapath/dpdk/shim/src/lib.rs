//! **The library that `am-dpdk` loads**: the system's DPDK behind a narrow C ABI.
//!
//! ```text
//!    crate am-dpdk                   no DPDK needed to build it
//!        │  dlopen, one symbol, a version
//!   ═════╪══════════════════════════════ src/abi.rs: one file, compiled into both sides
//!        ▼
//!    libdpdk_shim.so                 src/port.rs, eal.rs   calls that Rust can make (bindgen)
//!        │                           c/*.c                 what DPDK's headers define inline
//!        │                           net_memif             the driver, with three calls replaced: c/memif.c
//!        ▼
//!    librte_ethdev, librte_eal, ...  the distribution's
//!        │  dlopen, all that is in DPDK's directory of drivers
//!        ▼
//!    net_virtio_user, net_af_packet, ...
//! ```
//!
//! The shim passes no memory of Rust's allocator across the ABI, keeps no state but DPDK's, and knows nothing of active
//! messages. Read first: `abi.rs`, then `c/pool.c`.

#[allow(missing_docs, clippy::all, non_camel_case_types, non_upper_case_globals, non_snake_case, dead_code)]
#[allow(clippy::undocumented_unsafe_blocks, unsafe_op_in_unsafe_fn, unused_imports)]
mod dpdk {
    include!(concat!(env!("OUT_DIR"), "/dpdk.rs"));
}

#[allow(dead_code)] // some items are used on the other side only
mod abi;
mod eal;
mod port;

static TABLE: abi::Table = abi::Table {
    version: abi::VERSION,
    start: eal::start,
    probe: port::probe,
    make: dpdk::am_pool_make,
    free: dpdk::am_pool_free,
    is_torn: dpdk::am_is_torn,
    give: dpdk::am_give,
    take_back: dpdk::am_take_back,
    home: dpdk::am_home,
    recall: dpdk::am_recall,
    open: port::open,
    flow: port::flow,
    accept: port::accept,
    refuse: port::refuse,
    close: port::close,
    restart: port::restart,
    link: port::link,
    stats: port::stats,
    receive: dpdk::am_rx,
    send: dpdk::am_tx,
    send_copies: dpdk::am_tx_copy,
    sent: dpdk::am_tx_done,
};

// The C code declares these types as well: see `c/shim.h`.
const _: () = assert!(size_of::<abi::Frame>() == 12 && size_of::<abi::Counts>() == 8 && size_of::<abi::Memory>() == 24);
const _: abi::Entry = am_dpdk_shim;

/// The exported symbol: see [`abi::Entry`].
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn am_dpdk_shim() -> *const abi::Table {
    &TABLE
}
