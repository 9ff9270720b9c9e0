//! What several targets check: the modules that the tests of `wire` and `rpc` have, too.

#[path = "../../datapath/wire/tests/checks/mod.rs"]
pub mod checks;

#[path = "../../layers/rpc/tests/all/checks/mod.rs"]
pub mod rpc_checks;
