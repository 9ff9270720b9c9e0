//! The table of visitors: programs and administrators' tools that have connected, until they have sent a request and got an answer.

use std::time::{Duration, Instant};

use am_vnic::protocol::Hello;
use am_vnic::{Sent, Visitor};
use nix::libc::{EMFILE, ENFILE};

use crate::daemon::{Daemon, LISTENER, VISITOR};
use crate::visit::Visit;

/// How long the daemon accepts no connection after an accept has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The size of the table of visitors.
const MAX_VISITORS: usize = 64;

impl Daemon {
    pub(crate) fn accept(&mut self) {
        for _ in 0..MAX_VISITORS {
            let (socket, owner) = match self.listener.accept() {
                Ok(Some(accepted)) => accepted,
                Ok(None) => {
                    self.accept_at = None;
                    return;
                }
                Err(why) => return self.pause_accepting(&why),
            };
            if self.visits.len() >= MAX_VISITORS {
                self.make_room();
            }
            // Making it non-blocking cannot fail for a socket.
            let Ok(visitor) = Visitor::new(socket) else { continue };
            match self.watched.add(visitor.socket(), VISITOR) {
                Ok(()) => {
                    self.visits.push(Visit { visitor, owner, since: Instant::now(), hello: None, queue_at: None })
                }
                Err(why) => visitor.refuse(format!("the daemon cannot wait for it: {why}; raise the daemon's limits")),
            }
        }
    }

    /// Make room in the table: the user with the most visitors loses the oldest of them. So visitors that send nothing use up only their own
    /// user's places.
    #[cold]
    fn make_room(&mut self) {
        self.read_visitors();
        if self.visits.len() < MAX_VISITORS {
            return;
        }
        let visits = |uid: u32| self.visits.iter().filter(|visit| visit.owner.uid == uid).count();
        // Of several users with the same number of visitors, the one with the oldest visitor.
        let oldest = (0..self.visits.len()).rev().max_by_key(|at| visits(self.visits[*at].owner.uid));
        oldest.into_iter().for_each(|at| self.visits.remove(at).end());
    }

    /// Accept no connection for a while. Accepting has failed, and the listener's descriptor stays readable: without a pause the daemon would
    /// never sleep.
    #[cold]
    fn pause_accepting(&mut self, why: &std::io::Error) {
        if self.accept_at.is_none() {
            let help = if matches!(why.raw_os_error(), Some(EMFILE | ENFILE)) {
                "; raise the limit of open files (`LimitNOFILE=`, `ulimit -n`)"
            } else {
                ""
            };
            tracing::warn!("no program can attach now: {why}{help}");
        }
        self.accept_at = Some(Instant::now() + ACCEPT_PAUSE);
        self.watched.mute(self.listener.socket(), LISTENER, true);
    }

    /// Accept again after a pause, retry the visitors that wait, and refuse those that have waited for too long.
    pub(crate) fn check_visitors(&mut self, now: Instant) {
        if self.accept_at.is_some_and(|at| at <= now) {
            self.watched.mute(self.listener.socket(), LISTENER, false);
            self.accept();
        }
        if self.has_waiting() {
            self.read_visitors();
        }
        self.visits.extract_if(.., |visit| visit.is_over(now)).for_each(Visit::end);
    }

    /// Whether a visitor waits because of its user's rate limit, or for a queue.
    pub(crate) fn has_waiting(&self) -> bool {
        self.visits.iter().any(|visit| visit.hello.is_some())
    }

    pub(crate) fn read_visitors(&mut self) {
        let now = Instant::now();
        for mut visit in std::mem::take(&mut self.visits) {
            match visit.visitor.receive() {
                Sent::Closed => continue,
                Sent::Nothing => (),
                // A visitor that waits for its answer sends nothing valid: drop it.
                Sent::Packet(_) if visit.hello.is_some() => continue,
                Sent::Packet(packet) => match Hello::from_bytes(&packet) {
                    Some(hello) => (visit.hello, visit.since) = (Some(hello), now),
                    None => {
                        self.answer_visitor(visit.visitor, visit.owner, &packet);
                        continue;
                    }
                },
            }
            match visit.hello {
                Some(hello) if self.is_its_turn(&visit, &hello, now) => self.attach_visitor(visit, &hello, now),
                _ => self.visits.push(visit),
            }
        }
    }

    fn is_its_turn(&mut self, visit: &Visit, hello: &Hello, now: Instant) -> bool {
        match visit.queue_at {
            Some(at) => at <= now,
            // A program that attaches again after a restart of the daemon does not count towards the rate.
            None => self.expects(hello) || self.budgets.may_attach(visit.owner.uid, now),
        }
    }
}
