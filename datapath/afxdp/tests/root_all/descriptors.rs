//! A process that may have few descriptors. Whatever needs the next one, the error says that there is none. Needs root.

use std::process::Command;

use crate::pair::Cable;
use am_afxdp::{Copying, XdpOptions};
use am_netns::VethOptions;

const COPYING: &str = "AFXDP_TEST_COPYING";

#[test]
#[ignore = "started by each_missing_descriptor_is_named"]
fn limited() {
    let copy = if std::env::var(COPYING).unwrap() == "zero" { Copying::ZeroCopy } else { Copying::Auto };
    match am_afxdp::open(&XdpOptions { copy, ..XdpOptions::new("am0") }) {
        Ok(_) => println!("opened"),
        Err(error) => println!("\nerror: {error}"),
    }
}

/// What a process with so many descriptors says.
fn with(cable: &Cable, limit: u32, copying: &str) -> String {
    let run = || {
        let mut command = Command::new("sh");
        let rest = "--exact descriptors::limited --ignored --nocapture";
        command.args(["-c", &format!("ulimit -n {limit} && exec \"$0\" {rest}")]);
        command.arg(std::env::current_exe().unwrap()).env(COPYING, copying).output().unwrap()
    };
    let output = cable.hosts[0].enter(run).unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn each_missing_descriptor_is_named() {
    let cable = Cable::new(&VethOptions::default());
    let mut refused = 0;
    for limit in 4.. {
        assert!(limit < 60, "it never opens");
        let text = with(&cable, limit, "auto");
        if text.contains("opened") {
            break;
        }
        let error = text.lines().find(|line| line.starts_with("error: ")).unwrap_or_else(|| panic!("{limit}: {text}"));
        assert!(error.contains("`ulimit -n`"), "{limit}: {error}");
        refused += 1;
    }
    assert!(refused > 10, "one for each descriptor that it takes");
    // Nor is it called a driver without zero-copy.
    let text = with(&cable, 4, "zero");
    assert!(text.contains("`ulimit -n`") && !text.contains("zero-copy"), "{text}");
}
