//! Any text as what users write: names, addresses, framings, transports, lists of nodes.
#![no_main]

use am_fm::{Cluster, Rank};
use fuzz::checks;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    checks::text(&text);
    if let Ok(name) = text.parse::<am_transport::TransportName>() {
        assert_eq!(name.to_string().trim_end_matches(':'), text.trim_end_matches(':'));
        assert_eq!(name.to_string().parse(), Ok(name));
    }
    if let Ok(nodes) = Cluster::new(text.split(','), Rank(0)) {
        assert!(text.split(',').enumerate().all(|(at, name)| nodes.rank(name) == Some(Rank(at))));
    }
});
