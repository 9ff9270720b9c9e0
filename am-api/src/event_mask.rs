//! The events that an endpoint waits for (AM-II's event mask).

bitflags::bitflags! {
    /// What an endpoint waits for, and what a wait has found: see [`Endpoint::set_event_mask`](crate::Endpoint::set_event_mask).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Events: u32 {
        /// Not empty: a message, a transfer or the outcome of a call waits for its handler.
        const MESSAGES = 1;
        /// A connection that refused a message of this endpoint for the time being would take one now, or has ended. It is said once
        /// for each connection that refused.
        const CAN_SEND = 1 << 1;
        /// A message of this endpoint came back, and waits for its handler.
        const RETURNED = 1 << 2;
        /// A connection of this endpoint opened, failed or ended, and the event waits for its handler.
        const CONNECTION = 1 << 3;
        /// A [waker](crate::Node::waker) was used. It is said once, whatever the mask is.
        const WOKEN = 1 << 4;
        /// A member joined, changed or left, and the event waits for its handler ([`Endpoint::on_members`](crate::Endpoint::on_members)).
        const MEMBERS = 1 << 5;
    }
}

impl Default for Events {
    /// What a poll handles. `CAN_SEND` is left out, because few programs wait for it.
    fn default() -> Self {
        Events::MESSAGES | Events::RETURNED | Events::CONNECTION | Events::MEMBERS
    }
}
