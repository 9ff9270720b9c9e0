//! Frames conserved: every frame of a pool is somewhere, once.

use super::{Checked, Violation};
use crate::nic::Nic;
use transport::Transport;

/// Nobody wrote what was the NIC's, and every frame is free, the NIC's or one
/// of `others`, the numbers of those that its node holds.
///
/// # Errors
/// One was written, is free and held, or is lost.
pub fn running(nic: &Nic, others: &[usize]) -> Checked {
    let overwritten = nic.count().overwritten;
    if overwritten > 0 {
        return wrong(format!("{overwritten} frames were written while the NIC had them"));
    }
    let pool = &nic.caps().pool;
    conserved(pool.layout().frames, pool.available(), nic.frames_held_with(others))
}

/// Nothing is under way, and nobody but the NIC holds a frame.
///
/// # Errors
/// Frames are missing.
pub fn quiet(nic: &Nic) -> Checked {
    running(nic, &[])
}

fn conserved(frames: usize, free: usize, held: usize) -> Checked {
    if free + held > frames {
        return wrong(format!("{free} frames are free and {held} are held, of {frames}: some are both"));
    }
    if free + held < frames {
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
        assert_eq!((running(net.nic(0), &[]), quiet(net.nic(0))), (Ok(()), Ok(())));
        let kept = net.nic(0).caps().pool.take().expect("a frame");
        assert_eq!(running(net.nic(0), &[kept.index()]), Ok(()));
        assert!(quiet(net.nic(0)).is_err());
        let index = kept.index();
        drop(kept);
        assert_eq!(quiet(net.nic(0)), Ok(()));
        assert!(running(net.nic(0), &[index]).is_err(), "free and held");
    }
}
