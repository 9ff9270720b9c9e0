//! The capture file format that tcpdump and Wireshark read, with times in nanoseconds.
//!
//! ```
//! let mut file = vec![];
//! am_transport::pcap::write_header(&mut file)?;
//! am_transport::pcap::write_frame(&mut file, std::time::Duration::from_secs(1), &[0; 60])?;
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io::{self, Write};
use std::time::Duration;

/// The number of a pcap file with nanoseconds. Its byte order is the byte order of the file.
const MAGIC: u32 = 0xa1b2_3c4d;
const VERSION: [u16; 2] = [2, 4];
const MAX_CAPTURED_BYTES: u32 = 256 * 1024;
const ETHERNET: u32 = 1;

/// Write the header of a file of Ethernet frames.
///
/// # Errors
/// `out` cannot be written.
pub fn write_header(out: &mut impl Write) -> io::Result<()> {
    out.write_all(&MAGIC.to_le_bytes())?;
    out.write_all(&VERSION[0].to_le_bytes())?;
    out.write_all(&VERSION[1].to_le_bytes())?;
    // The offset of the time zone and the accuracy. Every program writes 0.
    out.write_all(&[0; 8])?;
    out.write_all(&MAX_CAPTURED_BYTES.to_le_bytes())?;
    out.write_all(&ETHERNET.to_le_bytes())
}

/// Write one frame. `at` is the time since 1970.
///
/// # Errors
/// `out` cannot be written.
pub fn write_frame(out: &mut impl Write, at: Duration, bytes: &[u8]) -> io::Result<()> {
    let captured = &bytes[..bytes.len().min(MAX_CAPTURED_BYTES as usize)];
    let fields = [at.as_secs() as u32, at.subsec_nanos(), captured.len() as u32, bytes.len() as u32];
    for field in fields {
        out.write_all(&field.to_le_bytes())?;
    }
    out.write_all(captured)
}
