//! Writes frames that are no messages.

use am_wire::control::Control;
use am_wire::frame::{self, LinkAddresses};
use am_wire::{Address, Buffer, Flow, Framing, Header, Kind};

use crate::control_queue::OutgoingControl;
use crate::node::Core;
use crate::output::Transmit;

impl<B: Buffer> Core<B> {
    /// Write a control frame. Returns its length.
    pub(crate) fn emit_control(&self, outgoing: &OutgoingControl, space: &mut [u8]) -> Option<usize> {
        let &OutgoingControl { to, framing, .. } = outgoing;
        let mut body = [0; Control::MAX_BYTES];
        let mut length = outgoing.body.emit(&mut body);
        if let Some(key) = &self.config.key {
            let code = key.control_code(framing, to, self.config.address, &body[..length]);
            body[length..length + code.len()].copy_from_slice(&code);
            length += code.len();
        }
        let header = Header { kind: Kind::Control, flow: Flow::NODE, nonce: 0, handler: 0, words: 0, seq: 0 };
        let min_body = outgoing.min_length.saturating_sub(framing.body_at());
        self.emit(space, to, framing, &header, &body[..length], min_body)
    }

    /// A frame with this body.
    pub(crate) fn build_frame(
        &self,
        mut frame: B,
        to: Address,
        framing: Framing,
        header: &Header,
        body: &[u8],
    ) -> Option<Transmit<B>> {
        let length = self.emit(frame.space()?, to, framing, header, body, 0)?;
        frame.set_len(length);
        Some(Transmit { to, frame })
    }

    /// Write a frame with this body, padded to `min_body` bytes. Returns its length.
    fn emit(
        &self,
        space: &mut [u8],
        to: Address,
        framing: Framing,
        header: &Header,
        body: &[u8],
        min_body: usize,
    ) -> Option<usize> {
        let place = frame::body(space, framing, body.len().max(min_body)).ok()?;
        let (content, padding) = place.split_at_mut(body.len());
        content.copy_from_slice(body);
        padding.fill(0);
        let addresses = LinkAddresses { to, from: self.config.address, ethertype: self.config.ethertype };
        frame::emit(space, framing, &addresses, header, body.len().max(min_body), None).ok()
    }
}
