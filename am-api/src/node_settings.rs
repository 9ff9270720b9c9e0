//! `udp:10.0.0.7:7000+node:patience=5,window=64,trace=FILE`: settings of a node, behind its transports, so that an operator need not change
//! the program. They take precedence over the program's own.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use am_proto::WINDOW;
use am_transport::trace::Trace;
use am_transport::{NameError, Transport};
use tracing::warn;

use crate::transports::{NODE_SCHEME, OpenError, SEPARATOR, split};

const HINT: &str = "the settings are patience=SECONDS, window=MESSAGES (1 to 512), and trace=FILE, each once, with commas between them";

/// What an operator sets.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct NodeSettings {
    pub(crate) patience: Option<Duration>,
    pub(crate) window: Option<u16>,
    trace: Option<PathBuf>,
}

impl NodeSettings {
    /// The settings in these names, and the names of the transports.
    pub(crate) fn of(names: &str) -> Result<(NodeSettings, String), NameError> {
        let (of_node, transports): (Vec<&str>, Vec<&str>) =
            split(names).into_iter().partition(|name| *name == NODE_SCHEME || name.starts_with("node:"));
        let mut settings = NodeSettings::default();
        let texts = of_node.iter().map(|name| name.strip_prefix("node:").unwrap_or_default());
        for text in texts.flat_map(|text| text.split(',')) {
            let bad = || NameError::Setting { scheme: NODE_SCHEME.into(), setting: text.into(), hint: HINT.into() };
            let (key, value) = text.split_once('=').filter(|(_, value)| !value.is_empty()).ok_or_else(bad)?;
            let is_second = match key {
                "patience" => {
                    let patience = value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                    settings.patience.replace(patience.filter(|time| !time.is_zero()).ok_or_else(bad)?).is_some()
                }
                "window" => {
                    let window = value.parse().ok().filter(|window| (1..=WINDOW).contains(&usize::from(*window)));
                    settings.window.replace(window.ok_or_else(bad)?).is_some()
                }
                "trace" => settings.trace.replace(value.into()).is_some(),
                _ => return Err(bad()),
            };
            if is_second {
                return Err(NameError::Twice { name: names.into(), key: key.into() });
            }
        }
        if transports.is_empty() {
            return Err(NameError::Scheme(names.into()));
        }
        Ok((settings, transports.join(&SEPARATOR.to_string())))
    }

    /// The transport, traced if an operator wants that.
    pub(crate) fn trace(&self, transport: Box<dyn Transport>) -> Result<Box<dyn Transport>, OpenError> {
        let Some(path) = &self.trace else { return Ok(transport) };
        let traced = File::create(path).and_then(|file| Trace::new(transport, Pcap::new(file, path)));
        let name = || format!("{NODE_SCHEME}:trace={}", path.display());
        traced.map(|traced| Box::new(traced) as _).map_err(|why| OpenError::Kind { name: name(), why: why.into() })
    }
}

/// The file of a trace, whose first error ends the trace.
#[derive(Debug)]
struct Pcap(BufWriter<File>, PathBuf);

impl Pcap {
    fn new(file: File, path: &Path) -> Pcap {
        Pcap(BufWriter::new(file), path.into())
    }

    fn ended(&self, error: &io::Error) {
        warn!(target: "am_api", file = %self.1.display(), %error, "trace_ended");
    }
}

impl Write for Pcap {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).inspect_err(|error| self.ended(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().inspect_err(|error| self.ended(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_node_are_taken_from_the_names() {
        let is = |names: &str, patience: Option<u64>, window, trace: Option<&str>, rest: &str| {
            let patience = patience.map(Duration::from_millis);
            let settings = NodeSettings { patience, window, trace: trace.map(PathBuf::from) };
            assert_eq!(NodeSettings::of(names).map_err(|error| error.to_string()), Ok((settings, rest.to_owned())));
        };
        is("udp:[::1]:7000,frame=1514", None, None, None, "udp:[::1]:7000,frame=1514");
        is("shm:lab+node:patience=2.5,window=512", Some(2500), Some(512), None, "shm:lab");
        is("node:window=1+xdp:br+1,x,queue=2+shm:lab", None, Some(1), None, "xdp:br+1,x,queue=2+shm:lab");
        is("xdp:br+node,queue=2+node:trace=a b.pcap", None, None, Some("a b.pcap"), "xdp:br+node,queue=2");
        is("shm:lab+node:window=2+node:patience=1", Some(1000), Some(2), None, "shm:lab");
        is("nodes:7", None, None, None, "nodes:7");
    }

    /// The errors of transports know them by this list.
    #[test]
    fn the_list_of_settings_is_complete() {
        use crate::transports::NODE_SETTINGS;
        let of_hint = HINT.split([' ', ',']).filter_map(|word| word.split_once('=')).map(|(key, _)| key);
        assert_eq!(of_hint.collect::<Vec<_>>(), NODE_SETTINGS);
    }

    #[test]
    fn other_settings_are_refused_with_a_hint() {
        for bad in [
            "",
            "patience",
            "patience=",
            "patience=0",
            "patience=-1",
            "patience=1e99",
            "patience=NaN",
            "patience=1s",
            "window=0",
            "window=513",
            "window=-1",
            "window=70000",
            "trace=",
            "colour=red",
            "window=4,",
            ",window=4",
            "Patience=1",
        ] {
            let said = NodeSettings::of(&format!("shm:lab+node:{bad}")).unwrap_err().to_string();
            assert!(said.contains("patience=SECONDS, window=MESSAGES"), "{bad}: {said}");
        }
        let said = |names: &str| NodeSettings::of(names).unwrap_err().to_string();
        assert!(said("shm:lab+node").contains("patience=SECONDS"));
        assert!(said("shm:lab+node:window=4,window=4").contains("`window` twice"));
        assert!(said("shm:lab+node:window=4+node:window=5").contains("`window` twice"));
        assert!(said("node:window=4").contains("names no transport"));
    }
}
