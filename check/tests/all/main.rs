//! The program `verify` over transports that need no rights.

mod verified;
