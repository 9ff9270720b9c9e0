//! The frames that reached the switch, for tcpdump and Wireshark.

use std::time::Duration;

use am_transport::pcap;

use crate::clock::Nanos;

/// A capture file in memory: every frame that reached the switch, with its virtual time. The caller writes it to disk.
#[derive(Clone, Debug)]
pub struct Capture {
    file: Vec<u8>,
}

impl Default for Capture {
    fn default() -> Self {
        let mut file = vec![];
        // Writing to memory does not fail.
        let _ = pcap::write_header(&mut file);
        Capture { file }
    }
}

impl Capture {
    pub(crate) fn frame(&mut self, now: Nanos, bytes: &[u8]) {
        let _ = pcap::write_frame(&mut self.file, Duration::from_nanos(now), bytes);
    }

    /// The content of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_frames() {
        let mut capture = Capture::default();
        let start = capture.bytes().len();
        capture.frame(1_000_000_007, &[9; 60]);
        let record = &capture.bytes()[start..];
        assert_eq!(record[..8], [1, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(record[16..], [9; 60]);
    }
}
