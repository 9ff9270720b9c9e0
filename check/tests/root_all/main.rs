//! The program `verify` over real interfaces, in network namespaces. Needs root.

mod verified;
