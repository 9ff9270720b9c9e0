//! `xdp:INTERFACE`: AF_XDP.

use afxdp::{Attach, Copying, Options};
use transport::{Name, NameError};

use crate::kind::{Kind, Opened};

const EXAMPLE: &str = "eth1";
const HINT: &str = "there are queue=NUMBER, frames=NUMBER, attach=auto, attach=native or attach=generic, and copy=auto, \
                    copy=never or copy=always";

pub(crate) const KIND: Kind = Kind {
    scheme: "xdp",
    example: "xdp:eth1",
    what: "AF_XDP: an interface's own rings, past the kernel's network stack",
    open,
};

fn open(name: &Name) -> Opened {
    Ok(Box::new(afxdp::open(&options(name)?)?))
}

fn options(name: &Name) -> Result<Options, NameError> {
    let (interface, settings) = name.settings(EXAMPLE)?;
    let mut options = Options::new(interface);
    for (key, value) in settings {
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

    fn read(text: &str) -> Result<Options, String> {
        options(&text.parse().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn every_setting_is_read() {
        let said = Options { queue: 3, steer: true, frames: 16_384, attach: Attach::Native, ..Options::new("eth1") };
        assert_eq!(read("xdp:eth1,queue=3,frames=16384,attach=native"), Ok(said));
        for (text, copy) in [("never", Copying::ZeroCopy), ("always", Copying::Copy), ("auto", Copying::Auto)] {
            assert_eq!(read(&format!("xdp:eth1,copy={text}")), Ok(Options { copy, ..Options::new("eth1") }));
        }
        assert_eq!(read("xdp:eth1"), Ok(Options::new("eth1")));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        for text in ["xdp:eth1,frames", "xdp:eth1,frames=many", "xdp:eth1,frames=-1", "xdp:eth1,queue=a", "xdp:eth1,x"]
        {
            let error = read(text).unwrap_err();
            assert!(error.contains("queue=NUMBER, frames=NUMBER"), "{text}: {error}");
        }
        let error = crate::open("xdp:eth1,frames=100").err().unwrap().to_string();
        assert!(error.contains("frames=100 are too few") && error.ends_with("at least 4096"), "{error}");
    }
}
