//! `xdp:INTERFACE`: AF_XDP.

use am_afxdp::{Attach, Copying, XdpOptions};
use am_transport::{NameError, TransportName};

const EXAMPLE: &str = "eth1";
const KEYS: [&str; 4] = ["queue", "frames", "attach", "copy"];
const HINT: &str = "the settings are queue=NUMBER, frames=NUMBER, attach=auto, attach=native or attach=generic, and copy=auto, \
                    copy=never or copy=always";

/// An interface's name may contain commas. It ends at the first comma that a setting follows.
pub(super) fn interface(rest: &str) -> &str {
    let is_setting = |part: &str| part.contains('=') || KEYS.contains(&part);
    let commas = rest.match_indices(',').map(|(at, _)| at);
    let mut ends = commas.filter(|at| is_setting(rest[at + 1..].split(',').next().unwrap_or_default()));
    ends.next().map_or(rest, |end| &rest[..end])
}

pub(super) fn options(name: &TransportName) -> Result<XdpOptions, NameError> {
    let interface = interface(name.rest(EXAMPLE)?);
    let (_, settings) = name.settings_with_many(EXAMPLE, |key| !KEYS.contains(&key))?;
    let mut options = XdpOptions::new(interface);
    for (key, value) in settings.skip(interface.matches(',').count()) {
        let bad = || name.bad_setting(key, value, HINT);
        match (key, value) {
            ("queue", Some(queue)) => (options.queue, options.steer) = (queue.parse().map_err(|_| bad())?, true),
            ("frames", Some(frames)) => options.frames = frames.parse().map_err(|_| bad())?,
            ("attach", Some("auto")) => options.attach = Attach::Auto,
            ("attach", Some("native")) => options.attach = Attach::Native,
            ("attach", Some("generic")) => options.attach = Attach::Generic,
            ("copy", Some("auto")) => options.copy = Copying::Auto,
            ("copy", Some("never")) => options.copy = Copying::ZeroCopy,
            ("copy", Some("always")) => options.copy = Copying::Copy,
            _ => return Err(bad()),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<XdpOptions, String> {
        options(&text.parse().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn every_setting_is_read() {
        let said =
            XdpOptions { queue: 3, steer: true, frames: 16_384, attach: Attach::Native, ..XdpOptions::new("eth1") };
        assert_eq!(read("xdp:eth1,queue=3,frames=16384,attach=native"), Ok(said));
        for (text, copy) in [("never", Copying::ZeroCopy), ("always", Copying::Copy), ("auto", Copying::Auto)] {
            assert_eq!(read(&format!("xdp:eth1,copy={text}")), Ok(XdpOptions { copy, ..XdpOptions::new("eth1") }));
        }
        assert_eq!(read("xdp:eth1"), Ok(XdpOptions::new("eth1")));
    }

    /// Linux allows any character in an interface's name except `/`, `:` and spaces.
    #[test]
    fn a_comma_in_an_interfaces_name_begins_no_setting() {
        for (text, interface, queue) in [
            ("xdp:eth,1", "eth,1", 0),
            ("xdp:a,b,b,queue=2", "a,b,b", 2),
            ("xdp:a+b,c,queue=2", "a+b,c", 2),
            ("xdp:eth1,", "eth1,", 0),
        ] {
            assert_eq!(read(text).map(|options| (options.interface, options.queue)), Ok((interface.to_owned(), queue)));
        }
    }

    #[test]
    fn bad_settings_are_refused_with_a_hint() {
        for text in
            ["xdp:eth1,frames", "xdp:eth1,frames=many", "xdp:eth1,frames=-1", "xdp:eth1,queue=a", "xdp:eth1,x=1"]
        {
            let error = read(text).unwrap_err();
            assert!(error.contains("queue=NUMBER, frames=NUMBER"), "{text}: {error}");
        }
        let error = crate::transports::open("xdp:eth1,frames=100").err().unwrap().to_string();
        assert!(error.contains("frames=100 are too few") && error.ends_with("at least 4096"), "{error}");
    }
}
