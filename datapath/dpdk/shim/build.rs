//! Finds the system's DPDK, compiles the C part against its headers, and generates bindings for the declarations that
//! are used.

use std::env;
use std::path::PathBuf;

/// The oldest supported version. The names that we use are the same in all later ones.
const OLDEST: &str = "22.11";
const HEADER: &str = "c/shim.h";
const SOURCES: [&str; 5] = ["c/pool.c", "c/spare.c", "c/burst.c", "c/log.c", "c/memif.c"];

const FUNCTIONS: &str = "am_.*|rte_eal_(init|get_runtime_dir|alarm_set)|rte_strerror|rte_dev_probe|rte_dev_remove|rte_eth_dev_(info_get|configure|start|stop|close|get_mtu|get_port_by_name|adjust_nb_rx_tx_desc|is_removed|mac_addr_(add|remove))|rte_eth_(promiscuous_enable|macaddr_get|link_get_nowait|stats_get|dev_socket_id)|rte_flow_(create|flush)";
const TYPES: &str = "am_.*|rte_flow_(attr|item|item_eth|action|action_queue|error)";
const VARIABLES: &str = "RTE_ETH_LINK_UP";

fn main() {
    println!("cargo:rerun-if-changed=c");
    let dpdk = pkg_config::Config::new().atleast_version(OLDEST).cargo_metadata(false).probe("libdpdk");
    let dpdk = dpdk.unwrap_or_else(|error| panic!("no DPDK to build against: `scripts/setup --with-dpdk`\n{error}"));
    let flags = cflags();
    compile(&flags);
    bind(&flags);
    link(&dpdk);
}

/// Compiler flags that its headers need. The crate `pkg-config` leaves out `-include` and `-march`.
fn cflags() -> Vec<String> {
    let output = std::process::Command::new("pkg-config").args(["--cflags", "libdpdk"]).output();
    let output = output.expect("pkg-config has just been run");
    String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
}

fn compile(flags: &[String]) {
    let mut build = cc::Build::new();
    build.files(SOURCES).std("gnu11").opt_level(3).warnings(true).extra_warnings(true).warnings_into_errors(false);
    build.flag("-Wno-unused-parameter");
    for flag in flags {
        build.flag(flag);
    }
    build.compile("am_shim");
}

fn bind(flags: &[String]) {
    let bindings = bindgen::Builder::default()
        .header(HEADER)
        .clang_args(flags)
        .allowlist_function(FUNCTIONS)
        .allowlist_type(TYPES)
        .allowlist_var(VARIABLES)
        // The types of the ABI have the same layout in C. A pool begins with its counts.
        .blocklist_type("am_(frame|pool|counts|memory)")
        .raw_line("use crate::abi::{Counts as am_pool, Frame as am_frame, Memory as am_memory};")
        .derive_default(true)
        .layout_tests(false)
        .generate_comments(false)
        .generate()
        .expect("the headers of DPDK, which the C compiler has just read");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where")).join("dpdk.rs");
    bindings.write_to_file(out).expect("cargo made the directory");
}

/// Link only the libraries that are used. DPDK loads its drivers itself, from its own directory. It finds memif's there
/// a second time, and takes the first that has the name: the one that is linked, see `c/memif.c`.
fn link(dpdk: &pkg_config::Library) {
    dpdk.link_paths.iter().for_each(|path| println!("cargo:rustc-link-search=native={}", path.display()));
    println!("cargo:rustc-link-lib=static:+whole-archive=rte_net_memif");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--wrap=sendmsg,--wrap=accept,--wrap=recvmsg");
    for library in ["bus_vdev", "ethdev", "hash", "kvargs", "net", "mbuf", "mempool", "ring", "eal"] {
        println!("cargo:rustc-link-lib=dylib=rte_{library}");
    }
}
