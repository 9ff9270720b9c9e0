//! Two sides that find each other by `--peer`, over transports without root.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;

use crate::common::{QUICK, Running, json, run, start, text};
use nix::sys::signal::Signal;

fn serve(on: &str) -> Running {
    start(&[&["--serve", "--name", "beta", "--on", on]])
}

fn near<'a>(drivers: &'a str, on: &'a str) -> [&'a str; 10] {
    ["latency", "--peer", "beta", "--name", "alpha", "--driver", drivers, "--json", "--on", on]
}

fn drivers(near: &[&str]) -> Vec<String> {
    let lines = json(&run(&[near, QUICK]));
    lines.iter().filter_map(|line| Some(line["via"].as_str()?.to_owned())).collect()
}

/// It was told to end, and printed no error.
fn end(far: Running) {
    far.signal(Signal::SIGTERM);
    let (status, errors) = far.end();
    assert_eq!(status.code(), Some(143), "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
}

#[test]
fn both_sides_have_one_address() {
    let far = serve("udp:127.79.1.1:7000");
    assert_eq!(drivers(&near("am,raw", "udp:127.79.1.1:7001,peer=127.79.1.1:7000")), ["am", "raw"]);
    end(far);
    let far = serve("tcp:127.79.1.1:7000");
    assert_eq!(drivers(&near("am,raw", "tcp:127.79.1.1:7001,peer=127.79.1.1:7000")), ["am", "raw"]);
    end(far);
}

/// A client has to know the port of its server.
#[test]
fn a_server_says_the_port_that_it_got() {
    for kind in ["udp", "tcp"] {
        let mut far = serve(&format!("{kind}:127.79.2.1:0"));
        let errors = BufReader::new(far.0.stderr.as_mut().unwrap());
        let said = errors.lines().map_while(Result::ok).find(|line| line.contains("serves on")).unwrap();
        let place = said.split([' ', ';']).find_map(|word| word.strip_prefix(&format!("{kind}:"))).unwrap().to_owned();
        assert!(!place.ends_with(":0"), "{said}");
        // The port is the same for each driver and each client.
        for port in [7000, 7001] {
            assert_eq!(drivers(&near("am,raw", &format!("{kind}:127.79.2.2:{port},peer={place}"))), ["am", "raw"]);
        }
        end(far);
    }
}

#[test]
fn several_transports_are_measured_as_one() {
    let lab = format!("shm:am-bench-test-{}", std::process::id());
    let far = serve(&format!("{lab}+udp:127.79.3.1:7000"));
    let near = near("am", "");
    let on = format!("{lab}+udp:127.79.3.2:7000,peer=127.79.3.1:7000");
    let lines = json(&run(&[&near[..9], &[&on], QUICK]));
    let mode = lines[0]["mode"].as_str().unwrap();
    assert!(mode.contains("shared memory"), "the better of the two: {mode}");
    // If both have only one transport in common, they use that one.
    let lines = json(&run(&[&near[..9], &["udp:127.79.3.3:7000,peer=127.79.3.1:7000"], QUICK]));
    assert_eq!(lines[0]["via"], "am");
    end(far);
}

/// The near side finds a port in use only when both have begun. The server has to serve the next one soon.
#[test]
fn a_near_side_that_cannot_open_its_own_leaves_a_server_that_hears() {
    let far = serve("udp:127.79.4.1:7000");
    let taken = UdpSocket::bind("127.79.4.2:34997").unwrap();
    let output = run(&[&near("raw", "udp:127.79.4.2:7000,peer=127.79.4.1:7000"), QUICK]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("127.79.4.2:34997 is in use"), "{}", text(&output.stderr));
    drop(taken);
    assert_eq!(drivers(&near("am,raw", "udp:127.79.4.3:7000,peer=127.79.4.1:7000")), ["am", "raw"]);
    end(far);
}

/// The exit codes of `--help`: 2 if the command line is wrong, 3 if something is missing.
#[test]
fn a_name_that_makes_no_sense_ends_with_2_and_what_is_missing_with_3() {
    for (on, code) in [
        ("udp:nonsense", 2),
        ("udp:127.0.0.1:7000,frame=abc", 2),
        ("udp:127.0.0.1:7000,frame=5", 2),
        ("tcp:127.0.0.1:7000,moon", 2),
        ("shm:a/b", 2),
        ("shm:lab,mode=9", 2),
        ("shm:lab+", 2),
        ("udp:192.0.2.1:7000", 3),
        ("shm:lab,dir=/no/such/directory", 3),
    ] {
        for line in [&["--serve", "--on", on][..], &near("am", on)] {
            let output = run(&[line]);
            assert_eq!(output.status.code(), Some(code), "{line:?}: {}", text(&output.stderr));
        }
    }
}
