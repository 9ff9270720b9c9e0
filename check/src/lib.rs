//! Every message once, in order and as it was sent, or returned: two programs that check it, over any transport.
//!
//! [`ledger`] is many processes that are killed, leave and are stopped, while interfaces go down; each notes what it sees in a
//! book, and a judge compares the books. [`verify`] is two nodes that check every byte of messages of all lengths.
//!
//! ```text
//!   ledger ─┬─▶ process   starts, kills and stops processes
//!           ├─▶ book, judge
//!   verify ─┴─▶ content   the bytes of a message follow from its number
//! ```
//!
//! Read first: `content.rs`; `ledger/book.rs` and `ledger/judge.rs`; `verify/phases.rs`.

mod content;
pub mod ledger;
mod program;
pub mod verify;

/// Why a program could not run.
type Error = Box<dyn std::error::Error + Send + Sync>;
