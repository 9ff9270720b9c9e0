//! What several targets check: the module that `wire`'s tests have, too.

#[path = "../../datapath/wire/tests/checks/mod.rs"]
pub mod checks;
