//! Names of transports.

use am_transport::{NameError, TransportName};

fn name(text: &str) -> TransportName {
    text.parse().unwrap()
}

#[test]
fn a_name_is_a_scheme_and_perhaps_more() {
    assert_eq!((name("xdp:eth1").scheme(), name("xdp:eth1").rest("eth0")), ("xdp", Ok("eth1")));
    assert_eq!(name("udp:[::1]:9000").rest(""), Ok("[::1]:9000"), "the transport defines the rest");
    assert_eq!(name("loopback").scheme(), "loopback");
    for text in ["xdp:eth1", "loopback", "dpdk:net_memif0,role=server", "udp:[::1]:9000"] {
        assert_eq!(name(text).to_string(), text);
    }
}

#[test]
fn what_is_no_name_is_refused() {
    for text in ["", ":", ":eth1", "XDP:eth1", "x dp:eth1", "/dev/eth1", "2:eth1"] {
        let error = text.parse::<TransportName>().unwrap_err();
        assert_eq!(error, NameError::Scheme(text.into()));
        assert!(error.to_string().contains("xdp:eth1"), "says how to write it");
    }
}

#[test]
fn errors_say_what_to_write() {
    assert_eq!(
        name("xdp").rest("eth1").unwrap_err().to_string(),
        "`xdp` is not complete: write `xdp:eth1`, for instance; only a process of a job (docs/am-run.md) completes it itself"
    );
    assert_eq!(name("xdp:").rest("eth1"), name("xdp").rest("eth1"));
    assert_eq!(
        name("carrier:pigeon").unknown_error(&["xdp:INTERFACE", "loopback"]).to_string(),
        "there is no transport `carrier` here; there are: xdp:INTERFACE, loopback"
    );
}

#[test]
fn settings_stand_between_commas() {
    let udp = name("udp:[::1]:7000,frame=9000,busy-poll,odd=a=b,");
    let (which, settings) = udp.settings("127.0.0.1:7000").unwrap();
    assert_eq!(which, "[::1]:7000");
    let settings: Vec<_> = settings.collect();
    assert_eq!(settings, [("frame", Some("9000")), ("busy-poll", None), ("odd", Some("a=b")), ("", None)]);
    assert!(name("udp").settings("127.0.0.1:7000").is_err());
    assert_eq!(
        udp.bad_setting("fame", Some("9000"), "there are frame=BYTES and busy-poll").to_string(),
        "`fame=9000` does not fit `udp`: there are frame=BYTES and busy-poll"
    );
}

#[test]
fn only_some_settings_may_be_given_twice() {
    for text in ["udp:x,frame=1,peer=y,frame=1", "udp:x,frame=1,frame=2", "udp:x,frame,frame=2"] {
        let says = format!("`{text}` has the setting `frame` twice: leave one of them out");
        assert_eq!(name(text).settings("x").err().expect(text).to_string(), says);
        assert_eq!(name(text).settings_with_many("x", |key| key == "frame").unwrap().1.last().unwrap().0, "frame");
    }
    assert!(name("udp:frame,frame,frames").settings("x").is_ok(), "the first piece is no setting");
}
