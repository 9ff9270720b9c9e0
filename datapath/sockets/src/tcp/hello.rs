//! The hello that each side sends first: its address, the port where it listens, and its longest frame.

use am_wire::Address;

/// Bytes of a hello.
pub(super) const HELLO_BYTES: usize = 20;

/// Neither a valid length nor the start of another protocol. The last byte is the version.
const MAGIC: [u8; 8] = *b"\xffam-tcp\x01";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) address: Address,
    /// The port that it listens at.
    pub(super) port: u16,
    /// The longest frame that it accepts.
    pub(super) max_frame: u32,
}

impl Hello {
    pub(super) fn emit(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..14].copy_from_slice(&self.address.0);
        bytes[14..16].copy_from_slice(&self.port.to_be_bytes());
        bytes[16..].copy_from_slice(&self.max_frame.to_be_bytes());
        bytes
    }

    /// Read a hello; `None` if the bytes are not one.
    pub(super) fn parse(bytes: &[u8; HELLO_BYTES]) -> Option<Hello> {
        let [m0, m1, m2, m3, m4, m5, m6, m7, a, b, c, d, e, f, p0, p1, l0, l1, l2, l3] = *bytes;
        let address = Address([a, b, c, d, e, f]);
        let makes_sense = [m0, m1, m2, m3, m4, m5, m6, m7] == MAGIC && !address.is_group() && address.to_u64() != 0;
        let (port, max_frame) = (u16::from_be_bytes([p0, p1]), u32::from_be_bytes([l0, l1, l2, l3]));
        makes_sense.then_some(Hello { address, port, max_frame })
    }

    /// Whether these first bytes can become a hello. If not, there is no need to wait for the rest.
    pub(super) fn is_prefix(bytes: &[u8]) -> bool {
        bytes.iter().zip(MAGIC).all(|(byte, magic)| *byte == magic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written() {
        let hello = Hello { address: Address([2, 0, 0, 0, 0, 9]), port: 7000, max_frame: 65_000 };
        assert_eq!(Hello::parse(&hello.emit()), Some(hello));
        assert!(Hello::is_prefix(&hello.emit()) && Hello::is_prefix(&[]) && !Hello::is_prefix(b"GET / HTTP"));
        for wrong in 0..9 {
            let mut bytes = hello.emit();
            bytes[wrong] ^= 1;
            assert_eq!(Hello::parse(&bytes), None, "byte {wrong}");
        }
    }
}
