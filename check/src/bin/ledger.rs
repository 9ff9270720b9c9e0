//! Books of every request on both sides, while processes are killed. See `am_check::ledger`.

fn main() {
    am_check::ledger::main();
}
