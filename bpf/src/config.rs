use am_wire::{Address, EtherType};

/// What steering knows from the start. It is fixed once the program is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The network's EtherTypes.
    pub ethertype: EtherType,
    /// This node's true address.
    pub own: Address,
    /// Index of the socket that control frames go to, at most [`Steer::LAST_SOCKET`](crate::Steer::LAST_SOCKET).
    pub node_socket: u8,
    /// Whether the counter `xdp_redirected` counts. Then no frame takes the short way to its socket, which costs several
    /// nanoseconds a frame. Sockets have statistics of their own.
    pub counts_redirected: bool,
    /// How many of a million frames for a socket are lost on purpose, at random, and counted (`xdp_lost_on_purpose`):
    /// for tests of a bad network. With 0, the loaded program has no code for it.
    pub lost_per_million: u32,
}

impl Config {
    /// As `struct config` in `decide.h`, in network byte order.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        let [a, b, c, d, e, f] = self.own.0;
        let [h0, h1] = self.ethertype.hidden().to_be_bytes();
        let [p0, p1] = self.ethertype.plain().to_be_bytes();
        let [r0, r1] = (self.counts_redirected as u16).to_ne_bytes();
        let [l0, l1, l2, l3] = of_all(self.lost_per_million).to_ne_bytes();
        [a, b, c, d, e, f, h0, h1, p0, p1, r0, r1, l0, l1, l2, l3]
    }

    /// What `USUAL_TO` of `usual.h` makes of a frame to this node whose source has the local bit, and not the group bit.
    pub(crate) const fn usual_to(&self) -> u64 {
        let [a, b, c, d, e, f] = self.own.0;
        let word = u64::from_ne_bytes([a, b, c, d, e, f, 0x02, 0]);
        if cfg!(target_endian = "little") { word << 14 } else { word }
    }

    /// The EtherType of usual frames in `bare` and `split`, as it stands in a frame.
    pub(crate) const fn usual_type(&self) -> u16 {
        self.ethertype.hidden().to_be()
    }

    /// The same in `plain`.
    pub(crate) const fn plain_type(&self) -> u16 {
        self.ethertype.plain().to_be()
    }
}

/// The share of 2^32 that `per_million` is of a million.
fn of_all(per_million: u32) -> u32 {
    (u64::from(per_million) * (1 << 32)).div_ceil(1_000_000).try_into().unwrap_or(u32::MAX)
}

/// Where the program runs on the receive path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum AttachMode {
    /// In the driver: fast, and required for zero-copy.
    #[default]
    Native,
    /// In the kernel's generic receive path, after it has built a socket buffer for the frame: for drivers without XDP.
    /// Never chosen silently.
    Generic,
}

impl AttachMode {
    /// Its name: `native` or `generic`.
    pub const fn name(self) -> &'static str {
        match self {
            AttachMode::Native => "native",
            AttachMode::Generic => "generic",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_million() {
        assert_eq!([0, 1, 500_000, 1_000_000, u32::MAX].map(of_all), [0, 4295, 1 << 31, u32::MAX, u32::MAX]);
    }
}
