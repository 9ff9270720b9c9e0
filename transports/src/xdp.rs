//! `xdp:INTERFACE`: AF_XDP.

use afxdp::{Attach, Options};
use transport::Name;

use crate::kind::{Kind, Opened};

const EXAMPLE: &str = "eth1";
const HINT: &str = "there are queue=NUMBER and attach=auto, attach=native or attach=generic";

pub(crate) const KIND: Kind = Kind {
    scheme: "xdp",
    example: "xdp:eth1",
    what: "AF_XDP: an interface's own rings, past the kernel's network stack",
    open,
};

fn open(name: &Name) -> Opened {
    let (interface, settings) = name.settings(EXAMPLE)?;
    let mut options = Options::new(interface);
    for (key, value) in settings {
        let bad = || name.bad_setting(key, value, HINT);
        match (key, value) {
            ("queue", Some(queue)) => options.queue = queue.parse().map_err(|_| bad())?,
            ("attach", Some("auto")) => options.attach = Attach::Auto,
            ("attach", Some("native")) => options.attach = Attach::Native,
            ("attach", Some("generic")) => options.attach = Attach::Generic,
            _ => return Err(bad().into()),
        }
    }
    Ok(Box::new(afxdp::open(&options)?))
}
