//! Where a figure is from: the fields that every line of JSON has.

use std::time::SystemTime;

use serde_json::{Value, json};

/// Where and when a report was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The transport of our messages and bare frames.
    transport: String,
    mtu: Option<u32>,
}

impl Origin {
    /// Over this transport, with this payload of a frame.
    pub fn new(transport: &str, mtu: Option<u32>) -> Origin {
        Origin { transport: transport.to_owned(), mtu }
    }

    /// Add these fields to every line. A line's own fields stay.
    pub(crate) fn stamp(&self, lines: &mut [Value], now: SystemTime) {
        let date = humantime::format_rfc3339_seconds(now).to_string();
        for line in lines {
            let inner = if line.get("summary").is_some() { &mut line["summary"] } else { line };
            let Value::Object(fields) = inner else { continue };
            let transport = match fields.get("via").or_else(|| fields.get("row")).and_then(Value::as_str) {
                // A row that uses a kernel socket.
                Some(kernel @ ("udp" | "tcp")) => kernel.to_owned(),
                _ => self.transport.clone(),
            };
            let said = [
                ("transport", json!(transport)),
                ("mtu", json!(self.mtu)),
                ("version", json!(env!("CARGO_PKG_VERSION"))),
                ("kernel", json!(kernel())),
                ("date", json!(date)),
            ];
            for (name, value) in said {
                fields.entry(name).or_insert(value);
            }
        }
    }
}

/// The kernel's version, without the suffix of its builder.
pub fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().split('-').next().unwrap_or_default().to_owned()
}
