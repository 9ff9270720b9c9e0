//! Names that make no sense, and what is said to them; and the settings of a node in a name.

use am_api::{HandlerId, Node};

#[test]
fn a_setting_is_said_once() {
    let twice = |key: &str| format!("has the setting `{key}` twice");
    for (text, key) in [
        ("shm:lab,mode=600,mode=660", "mode"),
        ("dpdk:net_memif0,role=server,am.frames=64,am.frames=64", "am.frames"),
        ("xdp:eth1,queue=1,attach=native,queue=2", "queue"),
        ("udp:127.0.0.1:0,frame=1000,frame=2000", "frame"),
        ("udp:127.0.0.1:0,fragment,fragment", "fragment"),
        ("tcp:127.0.0.1:0,peer=127.0.0.1:1,peer=127.0.0.1:2,buffer=9000,buffer=9000", "buffer"),
        ("sim:7,loss=1%,loss=2%", "loss"),
    ] {
        let error = am_api::transports::open(text).err().unwrap_or_else(|| panic!("{text} was opened")).to_string();
        assert!(error.contains(&twice(key)), "{text}: {error}");
    }
}

/// The error of a node's setting in a transport's name says where the setting belongs.
#[test]
fn a_setting_of_the_node_has_its_place_behind_the_transports() {
    for name in ["shm:lab", "udp:127.0.0.1:0", "tcp:127.0.0.1:0", "sim:7", "amd:/run/amd.sock"] {
        for setting in ["patience=5", "window=64", "trace=file", "patience"] {
            let error = am_api::transports::open(&format!("{name},{setting}")).map(drop).unwrap_err().to_string();
            assert!(error.contains(&format!("behind all transports: `+node:{setting}`")), "{name}: {error}");
        }
    }
    let other = am_api::transports::open("shm:lab,colour=5").map(drop).unwrap_err().to_string();
    assert!(other.contains("the settings are `dir=`"), "{other}");
}

#[test]
fn a_plus_joins_two_names() {
    for text in ["+", "shm:lab+", "+shm:lab", "shm:lab++udp:127.0.0.1:0"] {
        let error = am_api::transports::open(text).err().unwrap_or_else(|| panic!("{text} was opened")).to_string();
        assert!(error.contains("on both sides of it"), "{text}: {error}");
    }
    for text in ["xdp:no+such,1", "xdp:no+such+"] {
        let error = am_api::transports::open(text).err().unwrap_or_else(|| panic!("{text} was opened")).to_string();
        assert!(
            error.contains(&format!("no interface {} here", &text[4..])) || error.contains("not permitted"),
            "{error}"
        );
    }
    let none = am_api::transports::open("").err().expect("no name").to_string();
    assert!(none.contains("as in `xdp:eth1`") && !none.contains("loopback"), "{none}");
}

/// What to do is another matter: another name, or rights, a link, a file.
#[test]
fn what_another_name_would_help_is_known() {
    for (text, is) in [
        ("moon:7", true),
        ("shm:lab+", true),
        ("udp:nonsense", true),
        ("udp:127.0.0.1:0,frame=5", true),
        ("shm:a/b", true),
        ("shm:lab,frame=5", true),
        ("xdp:eth1,frames=100", true),
        ("xdp:no-such", false),
        ("shm:lab,dir=/no/such", false),
    ] {
        let error = am_api::transports::open(text).err().unwrap_or_else(|| panic!("{text} was opened"));
        assert_eq!(error.is_about_the_name(), is, "{text}: {error}");
    }
}

/// A row for each, in the order in which they are tried, and a section about its settings.
#[test]
fn every_kind_of_transport_is_in_the_documentation() {
    const PAGE: &str = include_str!("../../../docs/transports.md");
    const SETTINGS: &str = include_str!("../../../docs/transport-settings.md");
    let rows: Vec<&str> = PAGE.lines().filter_map(|line| line.strip_prefix("| [`")).collect();
    let named: Vec<&str> = rows.iter().filter_map(|row| row.split(':').next()).collect();
    let kinds: Vec<&str> = am_api::transports::kinds().iter().map(|kind| kind.scheme).collect();
    assert_eq!(named[..kinds.len()], kinds, "the rows of the first table");
    for scheme in kinds {
        assert!(SETTINGS.contains(&format!("\n## `{scheme}`\n")), "no section `{scheme}`");
    }
}

/// An operator sets a node behind its transports, and the program's own setting gives way.
#[test]
fn an_operator_sets_a_node_by_the_name_of_its_transport() {
    const NOTE: HandlerId = HandlerId(1);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("alpha.pcap");
    let alpha = Node::open("alpha", &format!("sim:173+node:trace={}", file.display())).unwrap();
    let beta = Node::builder("beta").window(16).open("node:window=1+sim:173").unwrap();
    let (mut sends, mut takes) = (alpha.endpoint::<()>("main").unwrap(), beta.endpoint::<u32>("main").unwrap());
    takes.on_request(NOTE, |count, _| *count += 1);
    let (to, mut count) = (sends.connect("beta", "main").unwrap(), 0);
    while !sends.is_open(to) {
        sends.poll(&mut ());
        takes.poll(&mut count);
    }
    sends.try_request(to, NOTE, &[], b"first").unwrap();
    assert!(sends.try_request(to, NOTE, &[], b"second").is_err(), "the window is one message");
    while count == 0 {
        sends.poll(&mut ());
        takes.poll(&mut count);
    }
    drop((sends, alpha));
    let traced = std::fs::read(&file).unwrap();
    assert_eq!(traced[..4], 0xa1b2_3c4d_u32.to_le_bytes());
    assert!(traced.windows(5).any(|bytes| bytes == b"first"), "{} bytes", traced.len());
    let said = Node::open("alpha", "sim:173+node:trace=/no/such/directory/a.pcap").err().unwrap().to_string();
    assert!(said.contains("node:trace=/no/such/directory/a.pcap`: No such file"), "{said}");
    let said = Node::open("alpha", "sim:173+node:colour=red").err().unwrap().to_string();
    assert!(said.contains("patience=SECONDS, window=MESSAGES"), "{said}");
}
