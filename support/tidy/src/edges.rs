//! Who may depend on whom.
//!
//! ```text
//!   apps, bench, check, bindings/*
//!     └▶ layers/*                        the public API, nothing below
//!          └▶ layers/base                what they share
//!               └▶ am-api                opens transports by their names
//!                    ├▶ engine           the two halves meet here only
//!                    │    ├▶ proto ──────────────────┐
//!                    │    └▶ transport ─▶ ring ──────┴▶ wire
//!                    │         ▲
//!                    └▶ datapath/{afxdp,..}, netdev-sim      what stands behind the seam
//! ```

use crate::Violation;
use crate::repository::{Crate, Repository};

/// Crate by directory, and the crates that it may need. Down only, and never a sibling.
pub const RULES: &[(&str, &[&str])] = &[
    ("datapath/wire", &[]),
    ("datapath/ring", &["am-wire"]),
    ("datapath/proto", &["am-wire"]),
    ("datapath/transport", &["am-ring", "am-wire"]),
    ("datapath/engine", &["am-proto", "am-transport", "am-ring", "am-wire"]),
    ("bpf", &["am-wire"]),
    ("datapath/afxdp", &["am-bpf", "am-transport", "am-ring", "am-wire"]),
    ("datapath/dpdk", &["am-transport", "am-ring", "am-wire"]),
    ("datapath/sockets", &["am-transport", "am-ring", "am-wire"]),
    ("datapath/multipath", &["am-transport", "am-ring", "am-wire"]),
    ("datapath/shm", &["am-transport", "am-ring", "am-wire"]),
    ("datapath/vnic", &["am-transport", "am-ring", "am-wire"]),
    ("netdev-sim", &["am-transport", "am-ring", "am-wire"]),
    // Its users name a transport in a string.
    ("am-api", &["core", "backends", "am-input"]),
    ("am-api/tests", &["active-messages", "core"]),
    // A program of many processes: where each is, and who starts them.
    // What a user gives a program.
    ("support/input", &[]),
    ("support/pmix", &[]),
    ("support/spmd", &["active-messages", "am-pmix"]),
    ("tools/am-run", &["am-spmd", "am-input"]),
    ("layers/base", &["active-messages", "am-spmd"]),
    ("layers/rpc/macros", &[]),
    ("layers/objects/macros", &[]),
    // Objects are above the other layers.
    ("layers/objects", &["active-messages", "am-base", "am-ordered", "am-rpc"]),
    // No I/O, no clock, no threads.
    ("layers/ordered/core", &["am-wire"]),
    ("layers/ordered/model", &["am-ordered-core"]),
    ("layers/", &["active-messages", "am-spmd", "am-base", "am-ordered-core", "am-input"]),
    // It starts am-run as a program.
    ("tools/dp-graph", &["am-dp", "am-input"]),
    // It starts programs of PVM with the library of bindings/pvm, and knows the names of transports.
    ("tools/pvm-am", &["active-messages", "am-input"]),
    // Libraries for other languages.
    ("bindings/runtime", &["active-messages", "am-spmd", "am-transport"]),
    ("bindings/", &["active-messages", "am-spmd", "layers", "am-transport", "am-c-runtime"]),
    ("apps/", &["active-messages", "layers"]),
    // It opens a wire by its name, and has the other end of the transport `amd:`.
    ("tools/amd", &["active-messages", "am-input", "am-vnic", "am-transport", "am-ring", "am-wire"]),
    // Its user names a backend. What measures is a library, on which the papers' tables stand.
    ("bench/measure", &["active-messages", "core", "layers", "backends", "am-netns"]),
    ("bench/papers", &["am-measure", "active-messages", "core", "layers", "backends"]),
    ("bench/ordered", &["am-measure", "active-messages", "am-ordered", "am-netns"]),
    // Objects are above groups: it measures both with the processes of the other.
    (
        "bench/objects",
        &["am-measure", "am-bench-ordered", "am-objects", "am-rpc", "active-messages", "am-ordered", "am-netns"],
    ),
    ("bench/rpc", &["am-measure", "active-messages", "am-rpc"]),
    ("bench/pvm", &["am-measure"]),
    (
        "bench",
        &[
            "am-measure",
            "am-papers",
            "am-bench-objects",
            "am-bench-ordered",
            "am-bench-pvm",
            "am-bench-rpc",
            "active-messages",
            "core",
            "layers",
            "backends",
            "am-netns",
        ],
    ),
    (
        "bench/cost",
        &[
            "active-messages",
            "am-am2-c",
            "am-daemon",
            "layers",
            "am-engine",
            "am-proto",
            "am-transport",
            "am-ring",
            "am-wire",
            "backends",
        ],
    ),
    // It names a backend, loses frames on purpose, and starts daemons and programs in network namespaces.
    ("check", &["active-messages", "am-daemon", "am-testing", "am-transport", "backends", "am-netns"]),
    ("support/netns", &[]),
    // What tests of several crates share: whole nodes, daemons, transports that fail.
    ("support/testing", &["active-messages", "am-daemon", "core", "backends", "am-netns"]),
    ("support/tidy", &[]),
];

/// What `core` stands for above.
const CORE: &[&str] = &["am-engine", "am-proto", "am-transport", "am-ring", "am-wire"];

/// What `backends` stands for above: named where a user chooses one, and in tests.
const BACKENDS: &[&str] =
    &["am-afxdp", "am-multipath", "am-dpdk", "am-sockets", "am-shm", "am-vnic", "am-bpf", "am-netdev-sim"];

/// What only tests may need besides.
const FOR_TESTS: &str = "am-netns";

/// Crates whose tests run whole nodes: by directory, and what these are made of. (The wire in memory is in `transport`.)
const NODES_FOR_TESTS: &[(&str, &[&str])] = &[
    ("netdev-sim", &["am-engine", "am-proto"]),
    // What serves the transport `amd:`.
    ("am-api/tests", &["am-daemon", "am-testing"]),
    ("layers/ordered/core", &["am-netdev-sim"]),
    // Spaces on a simulated network, in virtual time.
    ("layers/objects", &["am-ordered-core", "am-netdev-sim", "am-transport"]),
    ("layers/", &["am-transport", "am-ring", "am-testing"]),
    ("datapath/dpdk", &["active-messages", "am-daemon", "am-testing"]),
    ("bindings/", &["am-testing"]),
    ("check", &["am-ring"]),
    ("tools/amd", &["am-testing"]),
    ("tools/am-run", &["active-messages", "am-testing"]),
];

/// Where a crate's macros are, below it: macros of this kind are a crate of their own.
const MACROS: &str = "/macros";

const UNPLACED: &str = "say in support/tidy/src/edges.rs where the crate stands, and in docs/architecture.md why";
const UPWARDS: &str =
    "dependencies point down only: move what is needed below both, or pass it in (see docs/architecture.md)";

/// Every edge that points up, or to a sibling, and every crate that stands nowhere.
pub fn check(repository: &Repository) -> Vec<Violation> {
    let crates = &repository.crates;
    crates.iter().flat_map(|member| check_crate(member, crates)).collect()
}

fn check_crate(member: &Crate, crates: &[Crate]) -> Vec<Violation> {
    let Some((_, allowed)) = RULES.iter().find(|(place, _)| stands_at(&member.path, place)) else {
        return vec![Violation::new(&member.name, "a crate that no rule knows", UNPLACED)];
    };
    let nodes =
        NODES_FOR_TESTS.iter().find(|(place, _)| stands_at(&member.path, place)).map_or(&[][..], |(_, nodes)| nodes);
    let is_at =
        |name: &str, place: &dyn Fn(&str) -> bool| crates.iter().any(|other| other.name == name && place(&other.path));
    // A crate exports its macros, so nobody else needs them.
    let is_own = |path: &str| path.strip_suffix(MACROS) == Some(&member.path);
    let is_layer = |path: &str| path.starts_with("layers/") && !path.ends_with(MACROS);
    let may = |name: &str| {
        is_at(name, &is_own)
            || allowed.iter().any(|&rule| match rule {
                "core" => CORE.contains(&name),
                "backends" => BACKENDS.contains(&name),
                "layers" => is_at(name, &is_layer),
                rule => rule == name,
            })
    };
    // Tests of a crate may need it with all its features.
    let is_itself = |name: &str| name == member.name;
    let may_test = |name: &str| {
        may(name) || is_itself(name) || name == FOR_TESTS || BACKENDS.contains(&name) || nodes.contains(&name)
    };
    let built = member.needs.iter().filter(|name| !may(name)).map(|name| format!("needs `{name}`"));
    let tested = member.tests_need.iter().filter(|name| !may_test(name));
    let tested = tested.map(|name| format!("has tests that need `{name}`"));
    built.chain(tested).map(|what| Violation::new(&member.name, what, UPWARDS)).collect()
}

fn stands_at(path: &str, place: &str) -> bool {
    if place.ends_with('/') { path.starts_with(place) } else { path == place }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(path: &str, needs: &[&str], tests_need: &[&str]) -> Vec<Violation> {
        let name = path.rsplit('/').next().unwrap_or(path).to_string();
        let names = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        let member =
            Crate { name, path: path.into(), needs: names(needs), tests_need: names(tests_need), roots: vec![] };
        let layer = Crate { name: "rpc".into(), path: "layers/rpc".into(), ..Crate::default() };
        let macros = Crate { name: "rpc-macros".into(), path: "layers/rpc/macros".into(), ..Crate::default() };
        check(&Repository { sources: vec![], crates: vec![member, layer, macros] })
    }

    #[test]
    fn down_is_fine() {
        assert_eq!(with("datapath/engine", &["am-proto", "am-transport"], &["am-netns", "am-afxdp"]), []);
        assert_eq!(with("layers/pvm", &["active-messages", "am-base"], &["am-sockets"]), []);
        assert_eq!(with("layers/pvm", &["active-messages"], &["am-transport"]), []);
        assert_eq!(with("bindings/rpc", &["rpc", "am-transport", "am-c-runtime"], &["am-netns"]), []);
        assert_eq!(with("bench", &["rpc", "am-afxdp", "am-netns", "active-messages"], &[]), []);
    }

    #[test]
    fn a_crate_has_macros_of_its_own() {
        assert_eq!(with("layers/rpc", &["rpc-macros", "active-messages"], &[]), []);
        for path in ["layers/pvm", "layers/base", "bindings/rpc", "bench", "check"] {
            assert_eq!(with(path, &["rpc-macros"], &[]).len(), 1, "{path}");
        }
        assert_eq!(with("layers/rpc/macros", &["active-messages", "am-base"], &[]).len(), 2);
    }

    #[test]
    fn up_across_and_sideways_are_not() {
        for (path, needs) in [
            ("datapath/wire", "am-ring"),
            ("datapath/proto", "am-transport"),
            ("datapath/ring", "am-proto"),
            ("datapath/engine", "am-afxdp"),
            ("layers/pvm", "am-afxdp"),
            ("am-api", "am-netns"),
            ("layers/pvm", "rpc"),
            ("layers/base", "rpc"),
            ("layers/pvm", "am-engine"),
            ("layers/pvm", "am-transport"),
            ("bindings/rpc", "am-engine"),
            ("bindings/runtime", "rpc"),
            ("datapath/sockets", "am-bpf"),
        ] {
            assert_eq!(with(path, &[needs], &[]).len(), 1, "{path} -> {needs}");
        }
    }

    #[test]
    fn tests_do_not_excuse_going_up() {
        assert_eq!(with("datapath/proto", &[], &["am-engine"]).len(), 1);
        assert_eq!(with("am-api", &[], &["bench"]).len(), 1);
        assert_eq!(
            with("netdev-sim", &["am-proto"], &["am-engine"]).len(),
            1,
            "what tests may need, the library may not"
        );
    }

    #[test]
    fn a_crate_stands_somewhere() {
        assert_eq!(with("datapath/magic", &[], &[]).len(), 1);
    }
}
