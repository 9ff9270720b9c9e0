//! Memory is bounded: no ring, buffer or table holds more than its bound.

use super::{Checked, Violation};
use crate::net::Net;

/// Check the rings of a NIC, and the switch's table and buffers.
///
/// # Errors
/// One of them is over its bound.
pub fn check_bounds(net: &mut Net, node: usize) -> Checked {
    let options = net.options();
    let bounds = [options.fill, options.rx, options.tx, options.completion];
    let (buffer, addresses, nodes) = (options.switch_buffer, options.switch_addresses, options.nodes);
    let held = net.nic(node).ring_lengths();
    for (ring, (held, most)) in ["fill", "RX", "TX", "completion"].iter().zip(held.into_iter().zip(bounds)) {
        check_within(ring, held, most)?;
    }
    (0..nodes).try_for_each(|port| check_within("switch buffer", net.switch().queued_bytes(port), buffer))?;
    check_within("switch table", net.switch().learned_count(), addresses)
}

/// Check that `what` holds at most `most`.
///
/// # Errors
/// It holds more.
pub fn check_within(what: &str, count: usize, most: usize) -> Checked {
    if count <= most {
        return Ok(());
    }
    Err(Violation::new("memory", format!("{count} in the {what}, which has room for {most}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NetOptions;

    #[test]
    fn too_much_is_seen() {
        assert_eq!(check_bounds(&mut Net::new(NetOptions::calm(2)), 1), Ok(()));
        assert!(check_within("RX", 5, 4).is_err());
    }
}
