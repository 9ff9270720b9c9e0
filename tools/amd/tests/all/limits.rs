//! The daemon's tables, against the limits that `docs/promises.md` and `docs/amd.md` name.

use am_daemon::address::MAX_PORTS;
use am_daemon::budget::{ATTACHES_A_SECOND, LINES_A_SECOND, MAX_ATTACHES, MAX_LINES};
use am_daemon::grants::{MAX_FROM_PORT, MAX_FROM_WIRE};

use crate::page::documented;

#[test]
fn the_pages_have_the_constants() {
    assert_eq!(documented("ports of `amd`"), MAX_PORTS);
    assert_eq!(documented("programs of a user that attach to `amd` at once"), MAX_ATTACHES as usize);
    assert_eq!(documented("flows of a port of `amd` towards hosts of the wire"), MAX_FROM_WIRE);
    assert_eq!(documented("flows of a port of `amd` towards each other port"), MAX_FROM_PORT);
    let page = include_str!("../../../../docs/amd.md").replace(',', "");
    let (rest, limits) = page.split_once("## Limits").expect("a section");
    assert!(rest.contains(&format!(
        "at most {MAX_LINES} lines about one user at once and {LINES_A_SECOND} more in each second"
    )));
    let is_there = |text: String| assert!(limits.contains(&text), "docs/amd.md lacks `{text}`");
    is_there(format!("{MAX_PORTS} ports"));
    is_there(format!(
        "{MAX_ATTACHES} programs of a user that attach at once and {ATTACHES_A_SECOND} more in each second"
    ));
    is_there(format!("{MAX_FROM_WIRE} flows of a port towards hosts of the wire"));
    is_there(format!("{MAX_FROM_PORT} towards each other port"));
}
