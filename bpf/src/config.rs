use wire::{Address, EtherType};

/// What steering knows from the start; fixed once the program is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The network's EtherTypes.
    pub ethertype: EtherType,
    /// This node's true address.
    pub own: Address,
    /// Index of the socket that control frames go to, at most [`Steer::LAST_SOCKET`](crate::Steer::LAST_SOCKET).
    pub node_socket: u8,
    /// Whether [`Counters::redirected`](crate::Counters::redirected) counts: a
    /// few nanoseconds for each frame, and sockets have statistics of their own.
    pub counts_redirected: bool,
}

impl Config {
    /// As `struct config` in `decide.h` has it: as it stands in a frame.
    pub(crate) fn to_bytes(self) -> [u8; 12] {
        let [a, b, c, d, e, f] = self.own.0;
        let [h0, h1] = self.ethertype.hidden().to_be_bytes();
        let [p0, p1] = self.ethertype.plain().to_be_bytes();
        let [r0, r1] = (self.counts_redirected as u16).to_ne_bytes();
        [a, b, c, d, e, f, h0, h1, p0, p1, r0, r1]
    }
}
