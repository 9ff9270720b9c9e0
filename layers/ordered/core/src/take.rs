//! The pieces of another member's state, as they arrive.

use bytes::Bytes;

use crate::member::{Core, Output, Role};
use crate::message::{Message, Piece, PieceContent, State};
use crate::transfer::{Taking, WINDOW};
use crate::view::{MemberId, Number};

impl Core {
    /// A piece of a state. The first one of another state begins it, unless the last one goes on. Returns the state once all of it is here.
    pub(crate) fn on_piece(&mut self, from: MemberId, piece: Piece) -> Option<State> {
        let Piece { id, nth, content } = piece;
        if !self.taking.as_ref().is_some_and(|taking| taking.is_of(from, id)) {
            let goes_on = |taking: &Taking| taking.is_alive(self.now) && !taking.is_before(from, id);
            if nth != 0 || !self.wants_state() || self.taking.as_ref().is_some_and(goes_on) {
                return None;
            }
            self.taking = Some(Taking::new(from, id, self.now));
            let is_first = matches!(self.role, Role::Joining { .. });
            self.out.push_back(Output::BeginState { is_first });
        }
        let taking = self.taking.as_mut()?;
        if nth >= taking.next && nth - taking.next < WINDOW as u64 {
            taking.behind.entry(nth).or_insert(content);
        }
        let mut end = None;
        while let Some(content) = taking.behind.remove(&taking.next) {
            (taking.next, taking.heard_at) = (taking.next + 1, self.now);
            if let PieceContent::Part { bytes, is_last } = &content
                && !taking.has_room_for(bytes.len(), *is_last)
            {
                self.refuse_part(from);
                return None;
            }
            self.out.push_back(match content {
                PieceContent::Part { bytes, is_last } => Output::StatePart { bytes, is_last },
                PieceContent::Messages(messages) => Output::StateMessages(messages),
                PieceContent::End(state) => {
                    end = Some(state);
                    break;
                }
            });
        }
        let next = taking.next;
        self.post(from, Message::PieceAck { id, next });
        end
    }

    /// A part is longer than any may be. The rest of the state would not help.
    fn refuse_part(&mut self, giver: MemberId) {
        self.counters.too_long += 1;
        (self.taking, self.refused_part_of) = (None, Some(giver));
        self.forget_state();
    }

    /// The member that gave a state with a part of more than 1 GiB, if this process has taken no other state since.
    pub fn refused_part_of(&self) -> Option<MemberId> {
        self.refused_part_of
    }

    /// Whether this process joins, and takes the state of this member.
    pub(crate) fn takes_state_of(&self, giver: MemberId) -> bool {
        matches!(self.role, Role::Joining { .. }) && self.taking.as_ref().is_some_and(|taking| taking.from == giver)
    }

    /// Whether a state that begins now may be of use.
    fn wants_state(&self) -> bool {
        match self.role {
            Role::Joining { .. } | Role::Diverged { .. } => true,
            Role::Member => {
                self.learns() || self.ballot.pending().is_some_and(|pending| self.log.held() < pending.base())
            }
            Role::Ended => false,
        }
    }

    /// Whether pieces of a state arrive: no other one is asked for.
    pub(crate) fn takes_state(&self) -> bool {
        self.taking.as_ref().is_some_and(|taking| taking.is_alive(self.now))
    }

    /// The pieces of a state that have arrived, if this process takes one.
    pub fn pieces_taken(&self) -> Option<u64> {
        self.taking.as_ref().map(|taking| taking.next)
    }

    /// The program goes on with a state.
    pub(crate) fn restore(&mut self, number: Number, state: Option<Bytes>) {
        (self.taking, self.refused_part_of) = (None, None);
        // What others were given goes on with the last state.
        self.givings.clear();
        self.out.push_back(Output::RestoreState { number, state });
    }

    /// The pieces that are here are of no use.
    pub(crate) fn forget_state(&mut self) {
        self.out.push_back(Output::ForgetState);
    }

    /// A state whose giver is gone, or that is not needed any more.
    pub(crate) fn take_on_time(&mut self) {
        let is_over = |taking: &mut Taking| taking.heard_at + self.settings.patience <= self.now;
        if self.taking.take_if(is_over).is_some() {
            self.forget_state();
        }
    }
}
