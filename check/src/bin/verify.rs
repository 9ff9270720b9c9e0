//! Two nodes that check each other's messages. See `am_check::verify`.

fn main() {
    am_check::verify::main();
}
