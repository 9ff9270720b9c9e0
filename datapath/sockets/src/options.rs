//! The settings of both transports.

use std::net::SocketAddr;
use std::time::Duration;

use am_transport::{NameError, TransportName};
use am_wire::EtherType;

use crate::peer_address;

/// The settings of the transports. [`SocketOptions::new`] has good values for all but the socket's own address;
/// [`SocketOptions::from_name`] reads all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// The socket's own address. With port 0 the system chooses a port.
    pub local: SocketAddr,
    /// Addresses of peers, added at once.
    pub peers: Vec<SocketAddr>,
    /// UDP only: the only peer. The socket is connected to it and reaches no other. A round trip takes a fifth less.
    pub connect: Option<SocketAddr>,
    /// The longest frame, in bytes from the destination address on. `None`: for UDP, what fits the MTU of the
    /// interface, but at most a jumbo frame; for TCP, [`TCP_FRAME`](Self::TCP_FRAME).
    pub frame: Option<usize>,
    /// Frames in the pool. `None`: as many as fit into [`MEMORY`](Self::MEMORY), at most 4096.
    pub frames: Option<usize>,
    /// Bytes of the kernel's buffers, in each direction. `None`: several megabytes for UDP, if the system allows it;
    /// the kernel's default for TCP.
    pub buffer: Option<usize>,
    /// How long the kernel polls the NIC's queue when nothing has arrived (`SO_BUSY_POLL`).
    pub busy_poll: Option<Duration>,
    /// The network's EtherTypes.
    pub ethertype: EtherType,
    /// UDP only: frames of one length to one address are passed to the kernel as one message, which the kernel or the
    /// NIC splits (`UDP_SEGMENT`). Used if the kernel supports it.
    pub gso: bool,
    /// UDP only: the kernel merges received datagrams of one length into one message, which is split here (`UDP_GRO`).
    /// Used if the kernel supports it.
    pub gro: bool,
    /// UDP only: IP fragments datagrams that exceed the path's MTU. Such a datagram is lost with any of its fragments.
    /// Without this they are not sent.
    pub fragment: bool,
}

/// Each setting, and whether TCP has it.
const SETTINGS: [(&str, bool); 9] = [
    ("peer=IP:PORT (as often as there are peers)", true),
    ("connect=IP:PORT (the only peer)", false),
    ("frame=BYTES", true),
    ("frames=NUMBER", true),
    ("buffer=BYTES", true),
    ("busy-poll=MICROSECONDS", true),
    ("gso=off", false),
    ("gro=off", false),
    ("fragment", false),
];

const EXAMPLE: &str = "127.0.0.1:7000";

impl SocketOptions {
    /// The most bytes of a pool of default size. The system provides a page when it is first used.
    pub const MEMORY: usize = 64 << 20;
    /// The default of the longest frame over TCP. No link limits it, and long frames cost least. A little less than 64
    /// KiB leaves room for the data around it.
    pub const TCP_FRAME: usize = 65_000;

    /// Default settings for a socket at this address.
    pub fn new(local: SocketAddr) -> SocketOptions {
        SocketOptions {
            local,
            peers: vec![],
            connect: None,
            frame: None,
            frames: None,
            buffer: None,
            busy_poll: None,
            ethertype: EtherType::DEFAULT,
            gso: true,
            gro: true,
            fragment: false,
        }
    }

    /// Read the settings from a transport's name: `udp:127.0.0.1:7000`, `tcp:[::1]:0,peer=[::1]:7000,frame=9000`.
    ///
    /// ```
    /// use am_sockets::SocketOptions;
    ///
    /// let options = SocketOptions::from_name(&"udp:[::1]:7000,frame=4000,peer=[::1]:7001".parse()?)?;
    /// assert_eq!((options.frame, options.peers.len()), (Some(4000), 1));
    /// let refused = SocketOptions::from_name(&"udp:[::1]:7000,speed=11".parse()?).unwrap_err();
    /// assert!(refused.to_string().contains("busy-poll=MICROSECONDS"));
    /// # Ok::<(), am_transport::NameError>(())
    /// ```
    ///
    /// # Errors
    /// The name has no address, or an unknown or invalid setting.
    pub fn from_name(name: &TransportName) -> Result<SocketOptions, NameError> {
        let is_udp = match name.scheme() {
            "udp" => true,
            "tcp" => false,
            _ => return Err(name.unknown_error(&["udp:IP:PORT", "tcp:IP:PORT"])),
        };
        let (place, settings) = name.settings_with_many(EXAMPLE, |key| key == "peer")?;
        let local = peer_address::parse(place).map_err(|why| name.bad_setting(place, None, why.to_string()))?;
        let mut options = SocketOptions::new(local);
        for (key, value) in settings {
            options.set(is_udp, key, value).map_err(|hint| name.bad_setting(key, value, hint))?;
        }
        Ok(options)
    }

    /// Set one setting. The error says what would be valid.
    fn set(&mut self, is_udp: bool, key: &str, value: Option<&str>) -> Result<(), String> {
        match (key, value) {
            ("peer", Some(place)) => self.peers.push(peer_address::parse(place).map_err(|why| why.to_string())?),
            ("connect", Some(place)) if is_udp => {
                self.connect = Some(peer_address::parse(place).map_err(|why| why.to_string())?);
            }
            ("frame", Some(bytes)) => self.frame = Some(number(bytes)?),
            ("frames", Some(frames)) => self.frames = Some(number(frames)?),
            ("buffer", Some(bytes)) => self.buffer = Some(number(bytes)?),
            ("busy-poll", Some(micros)) => self.busy_poll = Some(Duration::from_micros(number(micros)? as u64)),
            ("gso", Some(switch)) if is_udp => self.gso = is_on(switch)?,
            ("gro", Some(switch)) if is_udp => self.gro = is_on(switch)?,
            ("fragment", None) if is_udp => self.fragment = true,
            _ => {
                let fits = SETTINGS.iter().filter(|(_, tcp)| is_udp || *tcp).map(|(setting, _)| *setting);
                return Err(format!("the settings are {}", fits.collect::<Vec<_>>().join(", ")));
            }
        }
        Ok(())
    }
}

fn number(text: &str) -> Result<usize, &'static str> {
    text.parse::<u32>().map(|number| number as usize).map_err(|_| "a whole number goes here, from 0 to 4294967295")
}

fn is_on(text: &str) -> Result<bool, &'static str> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("`on` or `off`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SocketOptions, String> {
        let name: TransportName = text.parse().map_err(|error: NameError| error.to_string())?;
        SocketOptions::from_name(&name).map_err(|error| error.to_string())
    }

    #[test]
    fn every_setting_is_read() {
        let text = "udp:[::1]:7,peer=[::1]:8,peer=[::1]:9,connect=[::1]:8,frame=1000,frames=64,buffer=5000,busy-poll=50,gso=off,gro=off,fragment";
        let options = read(text).unwrap();
        let expected = SocketOptions {
            peers: vec!["[::1]:8".parse().unwrap(), "[::1]:9".parse().unwrap()],
            connect: Some("[::1]:8".parse().unwrap()),
            frame: Some(1000),
            frames: Some(64),
            buffer: Some(5000),
            busy_poll: Some(Duration::from_micros(50)),
            gso: false,
            gro: false,
            fragment: true,
            ..SocketOptions::new("[::1]:7".parse().unwrap())
        };
        assert_eq!(options, expected);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        for (text, hint) in [
            ("udp:", "write `udp:127.0.0.1:7000`"),
            ("udp:localhost:7000", "not looked up"),
            ("udp:127.0.0.1", "an address and a port"),
            ("udp:127.0.0.1:7000,peer=here", "not looked up"),
            ("udp:127.0.0.1:7000,connect=here", "not looked up"),
            ("udp:127.0.0.1:7000,frame=-1", "a whole number"),
            ("udp:127.0.0.1:7000,buffer=1000000000000", "to 4294967295"),
            ("udp:127.0.0.1:70000", "a port is at most 65535"),
            ("udp:[::1]:7000,peer=[::1]:70000", "a port is at most 65535"),
            ("tcp:[fe80::1%none]:7000", "there is no interface none here"),
            ("tcp:[::1]:7000,peer=[fe80::1%99999]:7000", "no interface with the index 99999"),
            ("udp:127.0.0.1:7000,gso=maybe", "`on` or `off`"),
            ("udp:127.0.0.1:7000,fragment=yes", "the settings are"),
            ("udp:127.0.0.1:7000,what", "peer=IP:PORT"),
            ("xdp:eth1", "udp:IP:PORT"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
        let error = read("tcp:127.0.0.1:7000,gso=off").unwrap_err();
        assert!(error.contains("frame=BYTES") && !error.contains("gro=off"), "{error}");
    }
}
