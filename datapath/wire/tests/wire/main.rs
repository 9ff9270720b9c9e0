//! What must hold of every frame. One file per promise.

mod any;
mod any_bytes;
mod bulk;
mod coalesced;
mod control_round_trip;
mod costs;
mod every_body_length;
mod every_field;
mod gate;
mod group;
mod padding;
mod round_trip;
mod source_address;
mod stamp;
mod steer_and_parse_agree;
mod wire_md;
