//! Whom the second socket is for, and which of the two is looked at: from what arrived alone, without a clock or a socket.
//!
//! ```text
//!                   64 datagrams in a row from one place,
//!                   each alone, by one who spins
//!   shared only ──────────────────────────────────────▶ both: 31 looks at the connected one, 1 at the shared
//!        ▲                                                │        (in turns, while nothing comes)
//!        └────────────────────────────────────────────────┘
//!          a burst; others who say more than an eighth
//! ```

use std::net::SocketAddr;

/// Datagrams in a row that make their sender the favourite, unless it was one before and not for long.
const ROW: u32 = 64;
const LONGEST_ROW: u32 = 1 << 20;

/// Looks without a datagram for each with one, at least: who sleeps in between would gain nothing.
const SPIN: u32 = 3;

/// Datagrams from the favourite without an empty look between them: the shared socket takes them with fewer calls.
const BURST: u32 = 16;

/// So often the socket that is not expected to have anything is looked at, while the other has,
const SELDOM: u32 = 32;
/// and while neither has,
const IN_TURNS: u32 = 2;
/// which begins here.
const QUIET: u32 = 128;
/// So often the connected one is when it is nobody's any more.
const RARELY: u32 = 1024;

/// What the favourite has to lose, and what it loses with each datagram from somebody else.
const CREDIT: u32 = 64;
const OTHERS: u32 = 8;

/// Where to look next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Where everybody's datagrams arrive.
    Shared,
    /// Where only the favourite's do.
    Connected,
}

/// What is to be done about the second socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is for this peer from now on.
    Connect(SocketAddr),
    /// It is for nobody.
    Part,
}

/// Who is the favourite, and who may be next.
#[derive(Debug)]
pub(super) struct Favour {
    is_given: bool,
    /// Looks since the last at the less expected socket, and how many make the next one due.
    looks: u32,
    every: u32,
    /// Who may be next: datagrams in a row, looks between them, and how many it takes.
    from: Option<SocketAddr>,
    row: u32,
    empty: u32,
    needed: u32,
    /// Of the favourite: datagrams without a pause, looks without one, what it has left, what it has sent.
    run: u32,
    quiet: u32,
    credit: u32,
    served: u32,
}

impl Favour {
    pub(super) fn new() -> Favour {
        Favour {
            is_given: false,
            looks: 0,
            every: u32::MAX,
            from: None,
            row: 0,
            empty: 0,
            needed: ROW,
            run: 0,
            quiet: 0,
            credit: 0,
            served: 0,
        }
    }

    /// Which socket to look at now.
    #[inline]
    pub(super) fn next(&mut self) -> Look {
        self.looks += 1;
        let is_due = self.looks >= self.every;
        if is_due {
            self.looks = 0;
        }
        if is_due == self.is_given { Look::Shared } else { Look::Connected }
    }

    /// The shared socket had so many messages, the first of them from there.
    #[inline]
    pub(super) fn saw_shared(&mut self, messages: usize, first: Option<SocketAddr>) -> Option<Change> {
        if messages == 0 {
            self.empty = self.empty.saturating_add(1);
            return None;
        }
        if self.is_given {
            // Where one is there may be more.
            self.looks = self.every;
            self.credit = self.credit.saturating_sub(OTHERS.saturating_mul(messages as u32));
            return (self.credit == 0).then_some(Change::Part);
        }
        if messages > 1 || self.from != first {
            (self.from, self.row, self.empty) = (first, 0, 0);
        }
        self.row += 1;
        if self.row < self.needed {
            return None;
        }
        let spins = self.empty / SPIN >= self.row;
        (self.row, self.empty) = (0, 0);
        first.filter(|_| spins).map(Change::Connect)
    }

    /// Whether the connected socket had one.
    #[inline]
    pub(super) fn saw_connected(&mut self, had_one: bool) -> Option<Change> {
        if !self.is_given {
            // What came before the change is older than what the shared socket has.
            self.looks = if had_one { self.every } else { 0 };
            return None;
        }
        if !had_one {
            self.run = 0;
            self.quiet = self.quiet.saturating_add(1);
            if self.quiet == QUIET {
                self.every = IN_TURNS;
            }
            return None;
        }
        (self.quiet, self.every) = (0, SELDOM);
        (self.run, self.served) = (self.run + 1, self.served.saturating_add(1));
        self.credit = (self.credit + 1).min(CREDIT);
        (self.run == BURST).then_some(Change::Part)
    }

    /// The second socket is connected to the favourite. What came before that is with the shared one, which is looked at first.
    pub(super) fn given(&mut self) {
        (self.is_given, self.credit) = (true, CREDIT);
        (self.every, self.looks) = (IN_TURNS, IN_TURNS);
        (self.run, self.quiet, self.served) = (0, 0, 0);
    }

    /// It is not, or could not be. Who was it for a short time only has to show more the next time.
    pub(super) fn taken(&mut self, in_use: bool) {
        let was_worth_it = self.is_given && self.served / 4 >= self.needed;
        self.needed = if was_worth_it { ROW } else { (self.needed * 2).min(LONGEST_ROW) };
        self.is_given = false;
        (self.every, self.looks) = if in_use { (IN_TURNS, IN_TURNS) } else { (u32::MAX, 0) };
        (self.from, self.row, self.empty, self.served) = (None, 0, 0, 0);
    }

    /// Nothing of the time before the last change can be left in either socket.
    pub(super) fn settled(&mut self) {
        if !self.is_given {
            self.every = RARELY;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: u16) -> Option<SocketAddr> {
        Some(([127, 0, 0, 1], number).into())
    }

    /// So many datagrams from there at the shared socket, each behind so many empty looks.
    fn hear(favour: &mut Favour, from: u16, datagrams: u32, empty: u32) -> Option<Change> {
        for _ in 0..datagrams {
            for _ in 0..empty {
                assert_eq!(favour.saw_shared(0, None), None);
            }
            if let Some(change) = favour.saw_shared(1, place(from)) {
                return Some(change);
            }
        }
        None
    }

    /// The one that is connected, and has talked so much since.
    fn given(datagrams: u32) -> Favour {
        let mut favour = Favour::new();
        favour.given();
        talk(&mut favour, datagrams);
        favour
    }

    /// The favourite says so much, with looks between.
    fn talk(favour: &mut Favour, datagrams: u32) {
        for _ in 0..datagrams {
            assert_eq!(favour.saw_connected(true), None);
            assert_eq!(favour.saw_connected(false), None);
        }
    }

    /// Looks at the shared socket of so many.
    fn shared(favour: &mut Favour, looks: u32) -> u32 {
        (0..looks).filter(|_| favour.next() == Look::Shared).count() as u32
    }

    #[test]
    fn a_row_from_one_place_is_what_it_takes() {
        let mut favour = Favour::new();
        assert_eq!(hear(&mut favour, 1, ROW - 1, 9), None);
        assert_eq!(hear(&mut favour, 2, ROW - 1, 9), None);
        assert_eq!(favour.saw_shared(2, place(2)), None, "two at once begin it again");
        assert_eq!(hear(&mut favour, 2, ROW - 2, 9), None);
        assert_eq!(hear(&mut favour, 2, 1, 9), place(2).map(Change::Connect));
        assert_eq!(shared(&mut favour, 10_000), 10_000, "until it is connected there is one socket to look at");
    }

    #[test]
    fn who_sleeps_has_none() {
        assert_eq!(hear(&mut Favour::new(), 1, 100 * ROW, SPIN - 1), None);
    }

    #[test]
    fn the_shared_one_is_looked_at_seldom_while_the_favourite_talks_and_in_turns_while_it_is_silent() {
        let mut favour = given(1);
        assert_eq!(shared(&mut favour, 100 * SELDOM), 100);
        (0..QUIET).for_each(|_| assert_eq!(favour.saw_connected(false), None));
        assert_eq!(shared(&mut favour, 1000), 500);
        // One that comes there may have others behind it.
        assert_eq!(favour.saw_shared(1, place(2)), None);
        assert_eq!(favour.next(), Look::Shared);
    }

    #[test]
    fn what_is_left_of_the_time_before_is_looked_at_first() {
        let mut favour = given(0);
        assert_eq!(favour.next(), Look::Shared);
        favour.taken(true);
        for _ in 0..5 {
            assert_eq!(favour.next(), Look::Connected);
            assert_eq!(favour.saw_connected(true), None);
        }
        assert_eq!(favour.next(), Look::Connected);
        assert_eq!(favour.saw_connected(false), None);
        assert_eq!(shared(&mut favour, 1000), 500);
        favour.settled();
        assert_eq!(shared(&mut favour, 10 * RARELY), 10 * RARELY - 10);
    }

    #[test]
    fn a_burst_ends_it_and_others_do_when_they_say_more_than_an_eighth() {
        let mut favour = given(1);
        let changes = (0..BURST).filter_map(|_| favour.saw_connected(true));
        assert_eq!(changes.collect::<Vec<_>>(), [Change::Part]);
        for (of_others, ends) in [(OTHERS, false), (OTHERS - 1, true)] {
            let mut favour = given(1);
            let change = (0..1000).find_map(|_| {
                talk(&mut favour, of_others);
                favour.saw_shared(1, place(2))
            });
            assert_eq!(change.is_some(), ends, "one of others' for {of_others}");
        }
    }

    #[test]
    fn who_was_it_in_vain_needs_more_each_time() {
        let mut favour = Favour::new();
        for doubled in 0..4 {
            assert_eq!(hear(&mut favour, 1, (ROW << doubled) - 1, 9), None);
            assert!(hear(&mut favour, 1, 1, 9).is_some());
            favour.given();
            favour.taken(true);
        }
        // And after one that was worth it as little as at first.
        favour.given();
        talk(&mut favour, ROW << 6);
        favour.taken(true);
        assert!(hear(&mut favour, 1, ROW, 9).is_some());
        (0..40).for_each(|_| favour.taken(false));
        assert!(hear(&mut favour, 1, LONGEST_ROW, SPIN + 1).is_some());
    }
}
