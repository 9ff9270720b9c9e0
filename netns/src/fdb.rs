use serde::Deserialize;

use crate::interface::parse_address;
use crate::tool::BRIDGE;
use crate::{Host, HostError};

/// One line of a switch's forwarding database: an address, and the port behind which it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FdbEntry {
    /// The Ethernet address.
    pub address: [u8; 6],
    /// The port's name on the switch: `p0`, `p1`, ...
    pub port: String,
    /// Whether it was learned from a frame. Otherwise it was configured, or is the port's own.
    pub learned: bool,
}

#[derive(Deserialize)]
struct Line {
    mac: String,
    ifname: String,
    #[serde(default)]
    state: String,
}

pub(crate) fn show(switch: &Host, bridge: &str) -> Result<Vec<FdbEntry>, HostError> {
    let arguments = ["-json", "fdb", "show", "br", bridge];
    let text = switch.run(&BRIDGE, &arguments)?;
    parse(&text).map_err(|source| HostError::Answer { command: format!("bridge {}", arguments.join(" ")), source })
}

fn parse(text: &str) -> Result<Vec<FdbEntry>, serde_json::Error> {
    // Without entries it prints nothing, which is not JSON.
    let lines: Vec<Line> = serde_json::from_str(if text.trim().is_empty() { "[]" } else { text })?;
    Ok(lines.into_iter().filter_map(entry).collect())
}

fn entry(line: Line) -> Option<FdbEntry> {
    // Learned entries are those without a state.
    let learned = matches!(line.state.as_str(), "" | "stale");
    Some(FdbEntry { address: parse_address(&line.mac)?, port: line.ifname, learned })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_learned_from_configured() {
        let text = r#"[
            {"mac":"26:22:60:74:a7:14","ifname":"p0","flags":[],"master":"br0","state":""},
            {"mac":"33:33:00:00:00:01","ifname":"p0","flags":["self"],"state":"permanent"}]"#;
        let entries = parse(text).unwrap();
        let short: Vec<_> = entries.iter().map(|e| (e.address[0], e.port.as_str(), e.learned)).collect();
        assert_eq!(short, [(0x26, "p0", true), (0x33, "p0", false)]);
    }

    #[test]
    fn an_empty_database_has_no_entries() {
        assert_eq!(parse("\n").unwrap(), []);
    }
}
