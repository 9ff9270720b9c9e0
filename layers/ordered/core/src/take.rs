//! The pieces of another member's state, as they arrive.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::member::{Core, Output, Role};
use crate::message::{Message, Piece, PieceContent, Pieces, State};
use crate::transfer::{Taking, WINDOW};
use crate::view::{MemberId, Number};

impl Core {
    /// A piece of a state. The first one of another state begins it, unless the last one goes on.
    pub(crate) fn on_piece(&mut self, from: MemberId, piece: Piece) {
        let Piece { id, nth, content } = piece;
        if !self.taking.as_ref().is_some_and(|taking| taking.is_of(from, id)) {
            let goes_on = |taking: &Taking| taking.is_alive(self.now) && (taking.from != from || taking.id > id);
            if nth != 0 || !self.wants_state() || self.taking.as_ref().is_some_and(goes_on) {
                return;
            }
            self.taking = Some(Taking { from, id, next: 0, behind: BTreeMap::new(), heard_at: self.now });
            let is_first = matches!(self.role, Role::Joining { .. });
            self.out.push_back(Output::BeginState { is_first });
        }
        let Some(taking) = &mut self.taking else { return };
        if nth >= taking.next && nth - taking.next < WINDOW as u64 {
            taking.behind.entry(nth).or_insert(content);
        }
        while let Some(content) = taking.behind.remove(&taking.next) {
            (taking.next, taking.heard_at) = (taking.next + 1, self.now);
            self.out.push_back(match content {
                PieceContent::Part { bytes, is_last } => Output::StatePart { bytes, is_last },
                PieceContent::Messages(messages) => Output::StateMessages(messages),
            });
        }
        let next = taking.next;
        self.post(from, Message::PieceAck { id, next });
    }

    /// Whether all pieces of a state are here. The state's own message is the last of them.
    pub(crate) fn has_pieces(&mut self, from: MemberId, state: &State) -> bool {
        let Some(pieces) = state.pieces else { return true };
        let is_it = |taking: &&mut Taking| taking.is_of(from, pieces.id) && taking.next >= pieces.count;
        let Some(taking) = self.taking.as_mut().filter(is_it) else { return false };
        let is_new = taking.next == pieces.count;
        taking.next = pieces.count.saturating_add(1);
        let next = taking.next;
        self.post(from, Message::PieceAck { id: pieces.id, next });
        is_new
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
    pub(crate) fn restore(&mut self, number: Number, state: Bytes, pieces: Option<Pieces>) {
        self.taking = None;
        // What others were given goes on with the last state.
        self.givings.clear();
        let state = pieces.is_none().then_some(state);
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
