//! The daemon's tables, against the limits that `docs/promises.md` and `docs/amd.md` name.

use am_daemon::address::MAX_PORTS;
use am_daemon::grants::{MAX_FROM_PORT, MAX_FROM_WIRE};

use crate::page::documented;

#[test]
fn the_pages_have_the_constants() {
    assert_eq!(documented("ports of `amd`"), MAX_PORTS);
    assert_eq!(documented("flows of a port of `amd` towards hosts of the wire"), MAX_FROM_WIRE);
    assert_eq!(documented("flows of a port of `amd` towards each other port"), MAX_FROM_PORT);
    let limits = include_str!("../../../docs/amd.md").split_once("## Limits").expect("a section").1.replace(',', "");
    let is_there = |text: String| assert!(limits.contains(&text), "docs/amd.md lacks `{text}`");
    is_there(format!("{MAX_PORTS} ports"));
    is_there(format!("{MAX_FROM_WIRE} flows of a port towards hosts of the wire"));
    is_there(format!("{MAX_FROM_PORT} towards each other port"));
}
