//! Link addresses and EtherTypes.

use core::fmt;
use core::str::FromStr;

/// A link address: six bytes as they stand in an Ethernet header. Transports
/// that are not Ethernet use the same six bytes for an address of their own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Address(pub [u8; 6]);

impl Address {
    /// Every host of the segment.
    pub const BROADCAST: Address = Address([0xff; 6]);

    /// A group address (bit 0 of the first byte): broadcast or multicast.
    #[inline]
    pub const fn is_group(&self) -> bool {
        self.0[0] & 1 != 0
    }

    /// A locally administered address (bit 1 of the first byte), as every
    /// source address that carries a header is.
    #[inline]
    pub const fn is_local(&self) -> bool {
        self.0[0] & 2 != 0
    }

    /// The address as a number, first byte most significant.
    #[inline]
    pub const fn to_u64(self) -> u64 {
        let a = self.0;
        u64::from_be_bytes([0, 0, a[0], a[1], a[2], a[3], a[4], a[5]])
    }

    /// The address of the low 48 bits of a number.
    #[inline]
    pub const fn from_u64(number: u64) -> Self {
        let b = number.to_be_bytes();
        Address([b[2], b[3], b[4], b[5], b[6], b[7]])
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text was not six hexadecimal bytes separated by colons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnAddress;

impl fmt::Display for NotAnAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an address: six hexadecimal bytes separated by colons, as in 02:00:00:00:00:01")
    }
}

impl core::error::Error for NotAnAddress {}

impl FromStr for Address {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            // Digits only: the parser of numbers would take a sign as well.
            let digits = |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
            let part = parts.next().filter(digits).ok_or(NotAnAddress)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| NotAnAddress)?;
        }
        if parts.next().is_some() { Err(NotAnAddress) } else { Ok(Address(bytes)) }
    }
}

/// The pair of EtherTypes of a network of active messages: `hidden` marks
/// frames whose source address is a header ([`Framing::Bare`](crate::Framing)
/// and `Split`), `plain()`, the next number, those whose source address is true.
/// A true address may look like any header, so one EtherType could not tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EtherType(u16);

impl EtherType {
    /// IEEE 802's "local experimental" pair, 0x88B5 and 0x88B6.
    pub const DEFAULT: EtherType = EtherType(0x88b5);

    /// A pair starting at `hidden`, or `None` where it is no EtherType: below
    /// 0x0600 the field is a length, and 0xFFFF has no successor.
    pub const fn new(hidden: u16) -> Option<Self> {
        if hidden >= 0x0600 && hidden < 0xffff { Some(EtherType(hidden)) } else { None }
    }

    /// The EtherType of frames with a header for a source address.
    #[inline]
    pub const fn hidden(self) -> u16 {
        self.0
    }

    /// The EtherType of frames with their true source address.
    #[inline]
    pub const fn plain(self) -> u16 {
        self.0 + 1
    }
}

impl Default for EtherType {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn text_and_number_round_trip() {
        let address = Address([0x02, 0, 0xab, 0xcd, 0xef, 0x01]);
        assert_eq!(address.to_string().parse(), Ok(address));
        assert_eq!(Address::from_u64(address.to_u64()), address);
    }

    #[test]
    fn bad_text_is_refused() {
        for text in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "2:00:00:00:00:001",
            "gg:00:00:00:00:00",
            "+2:00:00:00:00:00",
        ] {
            assert_eq!(text.parse::<Address>(), Err(NotAnAddress), "{text}");
        }
    }

    #[test]
    fn ethertypes_leave_room_for_their_pair() {
        assert_eq!(EtherType::new(0x05ff), None);
        assert_eq!(EtherType::new(0xffff), None);
        assert_eq!(EtherType::new(0x88b5), Some(EtherType::DEFAULT));
    }
}
