//! `docs/counters.md` has every counter that a node has, and no other.

use std::collections::BTreeSet;
use std::process;

use am_api::{Node, Transport};

const PAGE: &str = include_str!("../../../docs/counters.md");

/// What counts where rights or hardware are needed, or who wraps it: the names are read off its source.
const SOURCES: [(&str, &str); 10] = [
    ("amd_", include_str!("../../../datapath/vnic/src/program.rs")),
    ("xdp_", include_str!("../../../bpf/src/counters.rs")),
    ("xsk_", include_str!("../../../datapath/afxdp/src/stats.rs")),
    ("", include_str!("../../../datapath/afxdp/src/stats.rs")),
    ("", include_str!("../../../datapath/afxdp/src/transport.rs")),
    ("queue_", include_str!("../../../datapath/afxdp/src/given.rs")),
    ("dpdk_", include_str!("../../../datapath/dpdk/src/dpdk.rs")),
    ("dpdk_", include_str!("../../../datapath/dpdk/src/rx.rs")),
    ("dpdk_", include_str!("../../../datapath/dpdk/src/tx.rs")),
    ("trace_", include_str!("../../../datapath/transport/src/trace.rs")),
];

fn counted(on: Box<dyn Transport>, all: &mut BTreeSet<String>) {
    let node = Node::open_on("alpha", on).expect("a node");
    all.extend(node.counters().iter().map(|(name, _)| name.to_owned()));
}

/// Names of counters in a source: `each("NAME", ...)`, pairs `(NUMBER, "NAME")`, or the fields of `counters! { TYPE, "PREFIX": ... }`.
fn named(prefix: &str, source: &str) -> Vec<String> {
    let begins = ["each(\"", ", \""];
    let after = begins.iter().flat_map(|begin| source.split(begin).skip(1));
    let names = after.filter_map(|rest| rest.split_once('"')).filter(|(_, rest)| rest.starts_with([',', ')']));
    let is_name = |name: &str| name.starts_with(prefix) && name.chars().all(|c| c == '_' || c.is_ascii_lowercase());
    let fields = source.split_once(&format!("\"{prefix}\": ")).and_then(|(_, rest)| rest.split_once('}'));
    let fields =
        fields.into_iter().flat_map(|(fields, _)| fields.split(',')).map(|name| format!("{prefix}{}", name.trim()));
    let names = names.map(|(name, _)| name.to_owned()).chain(fields);
    names.filter(|name| is_name(name) && name.contains('_')).collect()
}

#[test]
fn every_counter_is_on_the_page() {
    let mut all = BTreeSet::new();
    let [wire, _] = am_transport::loopback::pair();
    counted(Box::new(wire.open().expect("memory")), &mut all);
    let shm = format!("shm:am-api-documented-{}", process::id());
    for name in ["tcp:127.0.0.1:0", "sim:4711", &format!("{shm}+udp:127.0.0.1:0")] {
        counted(am_api::transports::open(name).unwrap_or_else(|error| panic!("{error}")), &mut all);
    }
    for (prefix, source) in SOURCES {
        let names = named(prefix, source);
        assert!(!names.is_empty(), "{prefix}");
        all.extend(names);
    }
    let cells = PAGE.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1));
    let page: BTreeSet<String> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect();
    let missing: Vec<_> = all.difference(&page).collect();
    let gone: Vec<_> = page.difference(&all).collect();
    assert!(missing.is_empty() && gone.is_empty(), "docs/counters.md lacks {missing:?}, and has, of nobody, {gone:?}");
}
