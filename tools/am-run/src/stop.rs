//! After Ctrl-Z: the launcher stops itself once the processes of all hosts are stopped.

/// Counts the missing answers. Each host answers each request to stop, and may be slow.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    /// Missing answers to earlier, cancelled requests.
    stale: usize,
    /// Missing answers to the current request.
    missing: usize,
}

impl Stop {
    /// This many hosts were asked to stop. Cancels an earlier request.
    pub(crate) fn ask(&mut self, hosts: usize) {
        self.cancel();
        self.missing = hosts;
    }

    /// The processes continue: cancel the request.
    pub(crate) fn cancel(&mut self) {
        self.stale += std::mem::take(&mut self.missing);
    }

    /// Count the answer of a host. Returns whether the launcher shall stop now.
    pub(crate) fn answer(&mut self) -> bool {
        if self.stale > 0 {
            self.stale -= 1;
            return false;
        }
        let was_missing = self.missing;
        self.missing = was_missing.saturating_sub(1);
        was_missing == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_requests_are_one_stop() {
        let mut stop = Stop::default();
        stop.ask(2);
        stop.ask(2);
        assert_eq!([(); 4].map(|()| stop.answer()), [false, false, false, true]);
        assert!(!stop.answer(), "nothing was asked");
    }

    #[test]
    fn a_continuation_ends_the_request() {
        let mut stop = Stop::default();
        stop.ask(2);
        assert!(!stop.answer());
        stop.cancel();
        assert!(!stop.answer());
        stop.ask(1);
        assert!(stop.answer());
    }
}
