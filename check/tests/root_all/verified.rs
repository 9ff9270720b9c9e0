//! `verify` on an interface: trouble that goes, limits that are in the way. Needs root.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use am_netns::{Host, VethOptions, veth};
use am_testing::example::Running;

fn verify(host: &Host, arguments: &[&str]) -> Child {
    host.enter(|| {
        Command::new(env!("CARGO_BIN_EXE_verify")).args(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
    })
    .unwrap()
    .unwrap()
}

#[test]
fn trouble_that_has_gone_is_none_any_more() {
    let hosts = ["alpha", "beta"].map(|name| Host::new(name).expect("root"));
    let (_near, far) = veth(&hosts[0], "va", &hosts[1], "vb", &VethOptions::default()).unwrap();
    let _serving = Running(verify(&hosts[1], &["serve", "xdp:vb", "seconds=60"]));
    let mut asking = Running(verify(&hosts[0], &["keep", "xdp:va", "seconds=8", "patience=20"]));
    let mut lines = BufReader::new(asking.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains(r#""phase":"open""#));
    far.set_down().unwrap();
    let line = lines.next().unwrap();
    assert!(line.contains(r#""trouble":"interface va has no carrier"#), "{line}");
    sleep(Duration::from_secs(1));
    far.set_up().unwrap();
    let line = lines.next().unwrap();
    assert!(line.contains(r#""phase":"trouble""#) && line.contains(r#""trouble":null"#), "{line}");
    let line = lines.next().unwrap();
    let both = line.contains(r#""trouble":null"#) && line.contains(r#""last_trouble":"interface va has no carrier"#);
    assert!(both && line.contains(r#""good":true"#), "{line}");
}

#[test]
fn a_limit_of_the_process_is_named() {
    let hosts = ["alpha", "beta"].map(|name| Host::new(name).expect("root"));
    let _cable = veth(&hosts[0], "va", &hosts[1], "vb", &VethOptions::default()).unwrap();
    let program = env!("CARGO_BIN_EXE_verify");
    for (limit, on) in [("-n 6", "xdp:va"), ("-v 61440", "xdp:va,frames=65536")] {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit {limit} && exec \"$0\" serve {on} seconds=1")]).arg(program);
        let output = hosts[0].enter(|| command.output()).unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.code() == Some(2) && said.contains(&format!("`ulimit {}`", &limit[..2])),
            "{limit}: {said}"
        );
    }
}
