//! Frames conserved: every frame of a pool is somewhere, once.

use super::{Checked, Violation};
use crate::nic::Nic;
use transport::Transport;

/// Nobody wrote what was the NIC's, and no frame is in two places.
///
/// # Errors
/// It did happen.
pub fn running(nic: &Nic) -> Checked {
    let overwritten = nic.count().overwritten;
    if overwritten > 0 {
        return wrong(format!("{overwritten} frames were written while the NIC had them"));
    }
    let pool = &nic.caps().pool;
    // Frames that are sent may be on their way twice, as two handles: only
    // blanks and arrivals are surely different ones.
    let [fill, rx, ..] = nic.held();
    conserved(pool.layout().frames, pool.available(), fill + rx, false)
}

/// Nothing is under way, and nobody but the NIC holds a frame.
///
/// # Errors
/// Frames are missing.
pub fn quiet(nic: &Nic) -> Checked {
    let pool = &nic.caps().pool;
    conserved(pool.layout().frames, pool.available(), nic.frames_held(), true)
}

fn conserved(frames: usize, free: usize, held: usize, all: bool) -> Checked {
    if free + held > frames {
        return wrong(format!("{free} frames are free and {held} are held, of {frames}"));
    }
    if all && free + held < frames {
        return wrong(format!("{} of {frames} frames are lost: {free} free, {held} held", frames - free - held));
    }
    Ok(())
}

fn wrong(what: String) -> Checked {
    Err(Violation::new("frames", what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Net, Options};

    #[test]
    fn a_frame_that_somebody_keeps_is_missed() {
        let mut net = Net::new(Options::calm(2));
        assert_eq!((running(net.nic(0)), quiet(net.nic(0))), (Ok(()), Ok(())));
        let kept = net.nic(0).caps().pool.take();
        assert_eq!(running(net.nic(0)), Ok(()));
        assert!(quiet(net.nic(0)).is_err());
        drop(kept);
        assert_eq!(quiet(net.nic(0)), Ok(()));
    }

    #[test]
    fn a_frame_in_two_places_is_seen() {
        assert!(conserved(10, 8, 3, false).is_err());
    }
}
