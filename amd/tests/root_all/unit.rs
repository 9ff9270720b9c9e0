//! The systemd unit.
